import { defineStep } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { labPasses } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { dieAt, event, keeperRound, operator, pauseAt, probeEnv, reaches, rows } from "../harness.ts";
import { failsUntilMended, held, outputOf, platformReaches } from "../lab.ts";
import { failed, resolve } from "./operating.ts";
import { comes, kept, play, scene } from "./scene.ts";

const restart = (id: string) => instances.act(probeEnv, operator, "restart", id, { reason: "it hangs" });

it.each([
  "nothing",
  "restart committed, not applied",
  "platform run stopped, not restarted",
  "platform run restarted, not recorded",
] as const)(
  "W15 a restarted instance runs its code from the beginning and reuses recorded outcomes without a new effect (the process dies at: %s)",
  async (point) => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "once");
      const { value } = await step.waitFor("event", ProbeSignal, { subject: its.name });
      await its.act(step, "b", "once");
      return value;
    });
    await reaches(id, "waiting");
    expect(await instances.plan(probeEnv, operator, "restart", id, {})).toMatchObject({
      refused: null,
      effects: [{ step: "a", verdict: "kept" }],
    });
    const passes = labPasses.get(id) ?? 0;
    const own = point === "platform run stopped, not restarted" ? id : undefined;
    const { died } = point === "nothing" ? { died: () => true } : dieAt(point, own);
    await restart(id).catch(() => undefined);
    await comes(async () => {
      if (!died()) await keeperRound().catch(() => undefined);
      return died();
    });
    expect(died()).toBe(true);
    await probeEnv.DB.prepare("UPDATE millrace_actions SET lease_until = 0 WHERE instance_id = ?1").bind(id).run();
    await comes(async () => {
      await keeperRound();
      return (
        (labPasses.get(id) ?? 0) > passes &&
        (await rows("SELECT 1 FROM millrace_actions WHERE instance_id = ?1 AND applied_at IS NULL", id)).length === 0
      );
    });
    await probeEnv.PROBE_EVENTS.send(event("probe.signal", its.name, { about: its.name, value: "came" }));
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(its.log).toEqual(["a", "b"]);
    expect(await instances.get(probeEnv, operator, id)).toMatchObject({ run: 2, error: null });
  },
);

/** Restarts a run during its first effect. */
async function restartedAtWork() {
  const its = scene();
  const id = await play(its, async (step) => {
    await its.act(step, "a", "once", "slow");
    await its.act(step, "b", "once");
  });
  await comes(() => its.log.includes("a"));
  const restarted = restart(id);
  await reaches(id, "paused");
  return { its, id, restarted };
}

it("a restart records a running effect before it ends the run, and does not repeat it", async () => {
  const { its, id, restarted } = await restartedAtWork();
  its.state.go = true;
  await restarted;
  expect(await kept(id, "complete", "errored", "in_doubt")).toBe("complete");
  expect(its.log).toEqual(["a", "b"]);
});

it("a restarted run waits for an operator when its running effect ends in doubt", async () => {
  const { its, id, restarted } = await restartedAtWork();
  Object.assign(its.state, { go: true, lose: true });
  await restarted;
  expect(await kept(id, "in_doubt", "complete", "errored")).toBe("in_doubt");
  its.state.lose = false;
  await resolve(id, "a", { verb: "confirm", output: "its a" });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(its.log).toEqual(["a", "b"]);
});

it("an instance with an end that is recorded during its restart runs again for its result, without a further effect", async () => {
  const its = scene();
  const id = await play(its, async (step) => {
    await its.act(step, "a", "once");
    await held(() => its.state.go);
    return "its result";
  });
  await comes(() => its.log.includes("a"));
  const stopped = pauseAt("platform run stopped, not restarted", id);
  const restarted = restart(id);
  await comes(() => stopped.reached());
  expect(await platformReaches(id, "terminated")).toBe("terminated");
  // The report of a replay that had read the number of the new run arrives late.
  await recorderOf(probeEnv, id).finish({ id, run: 2, status: "complete", error: null }, true);
  its.state.go = true;
  stopped.release();
  await restarted;
  expect(await outputOf(id)).toBe("its result");
  expect(await reaches(id, "complete")).toBe("complete");
  expect(its.log).toEqual(["a"]);
});

it("a dry run of a restart reports a running effect as running, and not as in doubt", async () => {
  const its = scene();
  const id = await play(its, (step) => its.act(step, "a", "once", "slow"));
  await comes(() => its.log.includes("a"));
  expect((await instances.plan(probeEnv, operator, "restart", id, {})).effects).toEqual([{ step: "a", item: "", verdict: "under_way" }]);
  its.state.go = true;
  expect(await kept(id, "complete", "errored")).toBe("complete");
});

it("a restart ends a run at once when its code has ended, although an unawaited effect waits for its next attempt", async () => {
  const its = scene();
  let [tries, reads] = [0, 0];
  const id = await play(its, async (step) => {
    await step.commit("begun", () => ({}));
    const pause = { retries: { limit: 5, delay: 1000 }, timeout: "5 minutes" as const };
    const run = async () => (++tries === 1 ? Promise.reject(new Error("It is away.")) : its.log.push("b"));
    void step.effect("b", defineStep({ effect: "natural", ...pause, run }), {}).catch(() => undefined);
    void step.read("c", async () => (++reads === 1 ? Promise.reject(new Error("It is away.")) : 1), pause).catch(() => undefined);
    await held(() => tries > 0 && reads > 0);
  });
  await comes(() => tries > 0 && reads > 0);
  await restart(id);
  // The test does not poll until the run is ended by force, because the run may have started again by then.
  expect(["errored", "complete"]).toContain(await platformReaches(id, "errored", "complete"));
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(its.log).toEqual(["b"]);
});

it("a second restart, a resume and a pause are refused during a restart, with that reason; a cancel is accepted", async () => {
  const { its, id, restarted } = await restartedAtWork();
  const why = expect.stringMatching(/^The instance is being restarted: .*continues automatically/);
  const refused = { code: "invalid_transition", message: why, detail: { from: "paused" } };
  await expect(restart(id)).rejects.toMatchObject(refused);
  await expect(instances.act(probeEnv, operator, "resume", id, { reason: "go on" })).rejects.toMatchObject(refused);
  await expect(instances.act(probeEnv, operator, "pause", id, { reason: "wait" })).rejects.toMatchObject(refused);
  for (const name of ["restart", "resume", "pause"] as const) {
    expect(await instances.plan(probeEnv, operator, name, id, {})).toMatchObject({ refused: why });
  }
  expect(await instances.plan(probeEnv, operator, "cancel", id, {})).toMatchObject({ refused: null });
  expect(await instances.get(probeEnv, operator, id)).toMatchObject({ status: "paused", run: 2 });
  its.state.go = true;
  await restarted;
  expect(await kept(id, "complete", "errored", "in_doubt")).toBe("complete");
  expect(its.log).toEqual(["a", "b"]);
});

it("a dry run of a restart lists the failed step as one that runs again, and the audit record of the restart contains the failure", async () => {
  const { instanceId: id } = await failsUntilMended();
  await failed(id);
  const plan = await instances.plan(probeEnv, operator, "restart", id, {});
  expect(plan).toMatchObject({ refused: null, effects: [{ step: "a", item: "", verdict: "runs" }] });
  expect(plan.consequence).toMatch(/^The code is executed from the beginning/);
  await restart(id);
  const [row] = await rows("SELECT detail FROM millrace_actions WHERE instance_id = ?1 AND verb = 'restart'", id);
  expect(JSON.parse(String(row?.detail))).toMatchObject({ run: 2, failed: { step: "a", code: expect.any(String) } });
});

it("a restart ends a pause and runs the step that the pause held, as its dry run says", async () => {
  const its = scene();
  const id = await play(its, async (step) => {
    await its.act(step, "a", "once", "slow");
    await step.read("look", async () => its.log.push("look"));
  });
  await comes(() => its.log.includes("a"));
  await instances.act(probeEnv, operator, "pause", id, { reason: "wait" });
  its.state.go = true;
  await comes(async () => (await instances.plan(probeEnv, operator, "restart", id, {})).effects.length === 2);
  expect(await instances.plan(probeEnv, operator, "restart", id, {})).toMatchObject({
    consequence: expect.stringContaining("The pause ends."),
    effects: [
      { step: "a", verdict: "kept" },
      { step: "look", verdict: "runs" },
    ],
  });
  await restart(id);
  expect(await kept(id, "complete", "errored", "in_doubt")).toBe("complete");
  expect(its.log).toEqual(["a", "look"]);
});

it("a restart of a complete run is refused", async () => {
  const its = scene();
  const id = await play(its, (step) => its.act(step, "a"));
  expect(await kept(id, "complete")).toBe("complete");
  await expect(restart(id)).rejects.toMatchObject({ code: "invalid_transition", detail: { from: "complete", to: "running" } });
});
