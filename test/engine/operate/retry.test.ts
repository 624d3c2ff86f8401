import { type Done, defineStep, upstreamRefused } from "millrace";
import { planRetry, retryInstance, undoInstance } from "millrace/operate";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { HEARTBEAT_MS } from "../../../src/engine/guard/lease.ts";
import { recorderOf } from "../../../src/engine/recorder/client.ts";
import type { End } from "../../../src/engine/store/instances/run.ts";
import { deliver, envelopeOf, fresh, keeperRound, operator, pauseAt, probeEnv, reaches, rows, start, statusOf, until } from "../harness.ts";
import { errorOf, held, LAB, platformReaches, runLab } from "../lab.ts";

const ONCE = { retries: { limit: 0, delay: 10 } } as const;

/** A run that fails until it is mended, then stands still in its middle until it may go on. */
async function failing(name = fresh("lab")) {
  const state = { broken: true, go: false };
  const { instanceId } = await runLab(
    async ({ step }) => {
      await step.commit("a", () => (state.broken ? refuse() : {}), ONCE);
      await step.read("b", async () => held(() => state.go));
      await step.commit("c", () => ({}));
    },
    { name },
  );
  return { instanceId, state };
}

function refuse(): never {
  throw upstreamRefused("no");
}

/** What a pass says of its end, whenever it says so. */
async function say(end: Pick<End, "id" | "run" | "status">): Promise<void> {
  const error = end.status === "errored" ? JSON.stringify({ step: "a", code: "step_failed", message: "told late", attempts: 1 }) : null;
  await recorderOf(probeEnv, end.id).finish({ ...end, error });
  // Answered before it is committed; the recorder commits in order.
  await recorderOf(probeEnv, end.id).runOf(end.id);
}

const run = async (id: string) => (await rows<{ run: number }>("SELECT run FROM instances WHERE id = ?1", id))[0]?.run;

describe("The end of a run", () => {
  it("W33 a late word of the run that failed changes nothing once an operator has retried it", async () => {
    const { instanceId, state } = await failing();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    state.broken = false;
    await retryInstance(probeEnv, operator, instanceId, { reason: "mended" });
    expect(await run(instanceId)).toBe(2);
    await until(
      () => rows("SELECT 1 FROM inbox WHERE instance_id = ?1 AND state = 'done'", instanceId),
      (done) => done.length === 1,
    );
    await say({ id: instanceId, run: 1, status: "errored" });
    expect(await statusOf(instanceId)).toBe("running");
    state.go = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("I13 W33 an end is not written over an ended instance: only what succeeded replaces what failed, within one run", async () => {
    const done = await start(fresh(), [{ do: "commit", name: "c" }]);
    expect(await reaches(done.instanceId, "complete")).toBe("complete");
    await say({ id: done.instanceId, run: 1, status: "errored" });
    await say({ id: done.instanceId, run: 1, status: "terminated" });
    expect(await statusOf(done.instanceId)).toBe("complete");

    const { instanceId } = await failing();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await say({ id: instanceId, run: 1, status: "errored" });
    expect((await errorOf(instanceId))?.message).toBe("no");
    await say({ id: instanceId, run: 2, status: "complete" });
    expect(await statusOf(instanceId)).toBe("errored");
    await say({ id: instanceId, run: 1, status: "complete" });
    expect(await statusOf(instanceId)).toBe("complete");
    expect(await errorOf(instanceId)).toBe(null);
  });

  it("I17 a row that says errored while the platform runs on says running after the keeper's next look", async () => {
    const { instanceId, state } = await failing();
    state.broken = false;
    await reaches(instanceId, "running");
    await say({ id: instanceId, run: 1, status: "errored" });
    expect(await statusOf(instanceId)).toBe("errored");
    await keeperRound();
    expect(await statusOf(instanceId)).toBe("running");
    state.go = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("I17 what errored is looked at once more, and then no more", async () => {
    const { instanceId } = await failing();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    const look = async () => (await rows<{ at: number | null }>("SELECT check_at AS at FROM instances WHERE id = ?1", instanceId))[0]?.at;
    expect(await look()).toBeGreaterThan(Date.now());
    await keeperRound();
    expect([await statusOf(instanceId), await look()]).toEqual(["errored", null]);
  });

  it.each(["its next step", "its end"])("W33 a command believed dead, because its message was exhausted, lives again by %s", async (by) => {
    const state = { go: false };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.read("slow first step", async () => held(() => state.go));
      if (by === "its next step") await step.commit("effect", () => ({}));
    });
    await platformReaches(instanceId, "running");
    await deliver("probe-commands-dlq", [await envelopeOf(instanceId)]);
    state.go = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });
});

it("W20 a look-up that is refused says nothing of the effect: it stays unknown, and an undo asks again", async () => {
  const booked: string[] = [];
  const back: string[] = [];
  let refuses = true;
  const booking = defineStep({
    effect: "lookup",
    retries: { limit: 1, delay: 10 },
    lookup: async () => (refuses ? refuse() : booked[0]),
    run: async (): Promise<string> => {
      booked.push("booking 1");
      throw new Error("The answer was lost");
    },
    undo: defineStep<Done<null, string>, unknown>({ effect: "natural", run: async ({ input }) => back.push(input.output) }),
  });
  const { instanceId } = await runLab(({ step }) => step.effect("book", booking, null));
  expect(await reaches(instanceId, "errored")).toBe("errored");
  refuses = false;
  await undoInstance(probeEnv, operator, instanceId, "called off");
  expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
  expect([booked, back]).toEqual([["booking 1"], ["booking 1"]]);
});

it.each(["lookup", "once"] as const)(
  "W06 an attempt that was paused behind its claim and wakes after a takeover does not act (%s)",
  async (effect) => {
    const name = fresh("lab");
    let acts = 0;
    const definition = { effect, retries: { limit: 0, delay: 10 }, run: async () => ++acts, lookup: async () => undefined } as const;
    const paused = pauseAt("W01 claimed, effect not started", name);
    const { instanceId } = await runLab(({ step }) => step.effect("act", defineStep<null, number>(definition), null), { name });
    await until(async () => paused.reached(), Boolean);
    // Another attempt took the key over, and an operator said, or the upstream did, that nothing had happened.
    await probeEnv.DB.prepare("UPDATE inbox SET token = 'another', epoch = epoch + 1 WHERE instance_id = ?1").bind(instanceId).run();
    await scheduler.wait(HEARTBEAT_MS + 500);
    paused.release();
    await until(
      () => statusOf(instanceId),
      (is) => is === "errored",
    );
    expect([acts, (await errorOf(instanceId))?.code]).toEqual([0, "lease_lost"]);
  },
  20_000,
);

describe("A retry between the row's end and the platform's", () => {
  it("W33 is carried out as soon as the platform has ended the run too", async () => {
    const name = fresh("lab");
    const pass = pauseAt("W33 end told, pass not over", name);
    const { instanceId, state } = await failing(name);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await until(async () => pass.reached(), Boolean);
    state.broken = false;
    state.go = true;
    const retried = retryInstance(probeEnv, operator, instanceId, { reason: "at once" });
    await reaches(instanceId, "running");
    pass.release();
    await retried;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("W33 stays promised while the platform takes longer, and the keeper carries it out", async () => {
    const name = fresh("lab");
    const pass = pauseAt("W33 end told, pass not over", name);
    const { instanceId, state } = await failing(name);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await until(async () => pass.reached(), Boolean);
    state.broken = false;
    state.go = true;
    const { actionId } = await retryInstance(probeEnv, operator, instanceId, { reason: "at once" });
    const promise = () =>
      rows<{ open: number; attempts: number }>("SELECT applied_at IS NULL AS open, attempts FROM actions WHERE id = ?1", actionId);
    expect(await promise()).toEqual([{ open: 1, attempts: 1 }]);
    pass.release();
    await platformReaches(instanceId, "errored");
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await promise()).toMatchObject([{ open: 0 }]);
  });
});

describe("A retry from a step", () => {
  it("that the instance has not recorded is refused with the names there are; from one that only reads it goes on", async () => {
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
    await expect(retryInstance(probeEnv, operator, instanceId, { from: "loook", reason: "again" })).rejects.toMatchObject(wrong);
    await expect(planRetry(probeEnv, operator, instanceId, { from: "loook" })).rejects.toMatchObject(wrong);
    expect(await statusOf(instanceId)).toBe("errored");
    state.broken = false;
    await retryInstance(probeEnv, operator, instanceId, { from: "look", reason: "again" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(state.reads).toBe(2);
  });
});

describe("A retry that is carried out by several", () => {
  it("W16 by the operator's own call and the keeper at the same moment: its run is restarted once", async () => {
    const { instanceId, state } = await failing();
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
    const retried = retryInstance(probeEnv, operator, instanceId, { reason: "mended" });
    await until(
      () => rows("SELECT 1 FROM actions WHERE instance_id = ?1", instanceId),
      (found) => found.length > 0,
    );
    await keeperRound();
    await retried;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(restarts).toBe(1);
  });

  it("W18 W33 of a run that is still in its last moments: its undo begins behind them, and what was taken back is done again", async () => {
    const name = fresh();
    const back = defineStep({ effect: "natural", run: async () => 1 });
    let did = 0;
    const act = defineStep({ effect: "keyed", run: async () => ++did, undo: back as never });
    const paused = pauseAt("W33 end told, pass not over", name);
    onTestFinished(() => paused.release());
    const { instanceId } = await runLab(async ({ step }) => step.effect("act", act, {}), { name });
    await until(async () => paused.reached(), Boolean);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undoInstance(probeEnv, operator, instanceId, "off");
    expect(await statusOf(instanceId)).toBe("running");
    paused.release();
    await platformReaches(instanceId, "complete");
    await probeEnv.DB.prepare("UPDATE actions SET due_at = 0 WHERE instance_id = ?1").bind(instanceId).run();
    await keeperRound();
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    await retryInstance(probeEnv, operator, instanceId, { reason: "on again" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(did).toBe(2);
  });
});

it("I17 A run that the platform makes anew long after it failed is no failed one any more: its row says what it does", async () => {
  const state = { broken: true };
  const { instanceId } = await runLab(async ({ step }) => {
    await step.read("check", async () => (state.broken ? Promise.reject(new Error("Broken.")) : 1), { retries: { limit: 0, delay: 10 } });
    await step.effect(
      "mail",
      defineStep({ effect: "once", retries: { limit: 0, delay: 10 }, run: async () => Promise.reject(new Error("Lost.")) }),
      {},
    );
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await platformReaches(instanceId, "errored");
  await probeEnv.DB.prepare("UPDATE instances SET check_at = NULL WHERE id = ?1").bind(instanceId).run();
  state.broken = false;
  await (await LAB.get(instanceId)).restart();
  expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
  expect(await errorOf(instanceId)).toBeNull();
});
