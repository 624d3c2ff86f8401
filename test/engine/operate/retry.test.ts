import { defineStep, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { withAuditOpen } from "../../opened-audit.ts";
import { fresh, keeperRound, operator, pauseAt, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { failsUntilMended, held, LAB, platformReaches, runLab } from "../lab.ts";

/** A run that has ended in its row while its replay is still running on the platform. */
async function endedBeforeItsPass() {
  const name = fresh("lab");
  const pass = pauseAt("W33 end recorded, replay not over", name);
  const { instanceId, state } = await failsUntilMended(name);
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await until(async () => pass.reached(), Boolean);
  state.broken = false;
  state.go = true;
  return { instanceId, pass };
}

describe("A retry of a run that is recorded as ended while the platform still executes it", () => {
  it("W33 a retry of a run that is recorded as ended restarts it as soon as the platform has ended the run", async () => {
    const { instanceId, pass } = await endedBeforeItsPass();
    const retried = instances.act(probeEnv, operator, "retry", instanceId, { reason: "at once" });
    await reaches(instanceId, "running");
    pass.release();
    await retried;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("W33 a retry remains open while the platform needs longer to end the run, and the keeper executes it then", async () => {
    const { instanceId, pass } = await endedBeforeItsPass();
    const { action_id: actionId } = await instances.act(probeEnv, operator, "retry", instanceId, { reason: "at once" });
    const promise = () =>
      rows<{ open: number; attempts: number }>("SELECT applied_at IS NULL AS open, attempts FROM millrace_actions WHERE id = ?1", actionId);
    expect(await promise()).toEqual([{ open: 1, attempts: 1 }]);
    pass.release();
    await platformReaches(instanceId, "errored");
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await promise()).toMatchObject([{ open: 0 }]);
  });
});

/** Simulates a run that a killed process has left on the platform: its status is `running` until an event wakes it. */
function leftStanding(instanceId: string): void {
  const platform = Object.getPrototypeOf(LAB) as Workflow;
  const real = platform.get;
  let isWoken = false;
  const standing = vi.spyOn(platform, "get").mockImplementation(async function (this: Workflow, id: string) {
    const instance = await real.call(this, id);
    if (id !== instanceId) return instance;
    const status = () => (isWoken ? instance.status() : Promise.resolve({ status: "running" }));
    const sendEvent = async () => {
      isWoken = true;
    };
    const [restart, terminate] = [(options: never) => instance.restart(options), () => instance.terminate()];
    return { id, status, restart, terminate, sendEvent } as unknown as WorkflowInstance;
  });
  onTestFinished(() => standing.mockRestore());
}

describe("A run that is recorded as ended, and that a killed process left running on the platform", () => {
  it("W33 a retry wakes a run that a killed process left running, and restarts it once it has ended", async () => {
    const { instanceId, state } = await failsUntilMended();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    state.broken = false;
    state.go = true;
    leftStanding(instanceId);
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    await keeperRound();
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("W33 an undo wakes a run that a killed process left running, and starts once it has ended", async () => {
    const { instanceId } = await runLab(({ step }) => step.commit("row", () => ({}), { undo: () => ({}) }));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await platformReaches(instanceId, "complete");
    leftStanding(instanceId);
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    await keeperRound();
    await keeperRound();
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
  });
});

describe("A retry from a step", () => {
  it("a retry from an unrecorded step is refused with the recorded names, and a retry may start at a read-only step", async () => {
    const state = { broken: true, reads: 0 };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.read("look", async () => ++state.reads);
      await step.commit("write", () => (state.broken ? Promise.reject(upstreamRefused("Not yet.")) : {}), {
        retries: { limit: 0, delay: 10 },
      });
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    const wrong = { code: "invalid_payload", message: expect.stringContaining('no step "loook" to start from. It has: "look", "write".') };
    await expect(instances.act(probeEnv, operator, "retry", instanceId, { from: "loook", reason: "again" })).rejects.toMatchObject(wrong);
    await expect(instances.plan(probeEnv, operator, "retry", instanceId, { from: "loook" })).rejects.toMatchObject(wrong);
    expect(await statusOf(instanceId)).toBe("errored");
    state.broken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { from: "look", reason: "again" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(state.reads).toBe(2);
  });
});

describe("A retry of an instance that has not failed", () => {
  it("a refused retry names the action to take first: wait for a running or undoing instance, undo a complete one", async () => {
    const state = { go: false, back: false };
    const back = defineStep({ effect: "natural", run: () => held(() => state.back) });
    const act = defineStep({ effect: "natural", run: () => held(() => state.go), undo: back as never });
    onTestFinished(() => void Object.assign(state, { go: true, back: true }));
    const { instanceId } = await runLab(async ({ step }) => step.effect("act", act, {}));
    const refusal = async () => {
      const { refused } = await instances.plan(probeEnv, operator, "retry", instanceId, {});
      const asked = instances.act(probeEnv, operator, "retry", instanceId, { reason: "again" });
      await expect(asked).rejects.toMatchObject({ code: "invalid_transition", message: refused });
      await expect(instances.act(probeEnv, operator, "skip", instanceId, { step: "act", output: 1, reason: "on" })).rejects.toMatchObject({
        code: "invalid_transition",
        message: expect.stringContaining(state.go ? "is complete" : `GET /v1/instances/${instanceId}?wait=30`),
      });
      return refused;
    };
    const wait = `wait for its end (GET /v1/instances/${instanceId}?wait=30 returns when it has ended)`;
    expect(await refusal()).toContain(`It has not ended: ${wait}, and retry it only if it has failed.`);
    state.go = true;
    await reaches(instanceId, "complete");
    expect(await refusal()).toContain("To repeat its work, undo it, then retry it.");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "off" });
    const { refused } = await instances.plan(probeEnv, operator, "retry", instanceId, {});
    expect(refused).toBe(
      `The instance is running: only an errored or terminated one can be retried. It is being undone: ${wait}, then retry it.`,
    );
  });
});

describe("A retry", () => {
  it("W16 a retry that the operator's call and the keeper execute concurrently restarts its run once", async () => {
    const { instanceId, state } = await failsUntilMended();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    state.broken = false;
    state.go = true;
    let restarts = 0;
    const platform = Object.getPrototypeOf(LAB) as Workflow;
    const real = platform.get;
    const slow = vi.spyOn(platform, "get").mockImplementation(async function (this: Workflow, id: string) {
      const instance = await real.call(this, id);
      if (id !== instanceId) return instance;
      const status = async () => {
        const answer = await instance.status();
        await scheduler.wait(300);
        return answer;
      };
      const restart = (options: never) => {
        restarts++;
        return instance.restart(options);
      };
      const sendEvent = (told: never) => instance.sendEvent(told);
      return { id, status, restart, sendEvent } as unknown as WorkflowInstance;
    });
    onTestFinished(() => slow.mockRestore());
    const retried = instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    await until(
      () => rows("SELECT 1 FROM millrace_actions WHERE instance_id = ?1", instanceId),
      (found) => found.length > 0,
    );
    await keeperRound();
    await retried;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(restarts).toBe(1);
  });

  it("W18 W33 a retry repeats undone effects also when the undo was requested before the run had ended on the platform", async () => {
    const name = fresh();
    const back = defineStep({ effect: "natural", run: async () => 1 });
    let did = 0;
    const act = defineStep({ effect: "keyed", run: async () => ++did, undo: back as never });
    const paused = pauseAt("W33 end recorded, replay not over", name);
    onTestFinished(() => paused.release());
    const { instanceId } = await runLab(async ({ step }) => step.effect("act", act, {}), { name });
    await until(async () => paused.reached(), Boolean);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "off" });
    expect(await statusOf(instanceId)).toBe("running");
    paused.release();
    await platformReaches(instanceId, "complete");
    await probeEnv.DB.prepare("UPDATE millrace_actions SET due_at = 0 WHERE instance_id = ?1").bind(instanceId).run();
    await keeperRound();
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "on again" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(did).toBe(2);
  });
});

it("an action with an unknown verb is not executed: it remains open, and its error names the verb", async () => {
  const { instanceId } = await runLab(({ step }) => step.sleep("rest", "1 hour"));
  await platformReaches(instanceId, "running", "waiting");
  await rows(
    `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, result, at, due_at)
     SELECT 'freeze-' || id, tenant_id, 'tess', 'freeze', id, id, 'too hot', 'applied', ?2, 0 FROM millrace_instances WHERE id = ?1`,
    instanceId,
    Date.now(),
  );
  await keeperRound();
  const [action] = await rows<{ applied_at: number | null; error: string }>(
    "SELECT applied_at, error FROM millrace_actions WHERE verb = 'freeze'",
  );
  expect(action).toEqual({ applied_at: null, error: expect.stringContaining('"freeze" has no implementation') });
  await withAuditOpen("DELETE FROM millrace_actions WHERE verb = 'freeze'");
});
