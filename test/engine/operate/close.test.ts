import { upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { mode } from "../../probe/mode.ts";
import { dieAt, keeperRound, operator, probeEnv, rows } from "../harness.ts";
import { failsUntilMended, outputOf, platformOf, runLab } from "../lab.ts";
import { back, effect, failed, resolve, undo } from "./operating.ts";
import { comes, kept, play, scene } from "./scene.ts";

const close = (id: string) => instances.act(probeEnv, operator, "close", id, { reason: "the run is no longer needed" });
const standing = (id: string) => instances.get(probeEnv, operator, id);

it("a closed instance is final: a retry and an undo are refused, and its error remains on record with the reason", async () => {
  const { instanceId: id } = await failsUntilMended();
  await failed(id);
  expect(await instances.plan(probeEnv, operator, "close", id, {})).toMatchObject({ refused: null, effects: [] });
  await close(id);
  await keeperRound();
  expect(await standing(id)).toMatchObject({ status: "skipped", error: { step: "a" } });
  await expect(instances.act(probeEnv, operator, "retry", id, { reason: "once more" })).rejects.toMatchObject({
    code: "invalid_transition",
  });
  await expect(instances.act(probeEnv, operator, "undo", id, { reason: "called off" })).rejects.toMatchObject({
    code: "invalid_transition",
  });
  await expect(close(id)).rejects.toMatchObject({ detail: { from: "skipped", to: "skipped" } });
  await keeperRound();
  expect((await standing(id)).status).toBe("skipped");
  expect(await rows("SELECT verb, result, reason FROM millrace_actions WHERE instance_id = ?1 AND verb = 'close' ORDER BY at", id)).toEqual(
    [
      { verb: "close", result: "applied", reason: "the run is no longer needed" },
      { verb: "close", result: "no_change", reason: "the run is no longer needed" },
    ],
  );
});

it.each(["platform", "inline"] as const)(
  "W23 a close during an effect records that effect, begins no further step, and keeps the instance closed (step mode %s)",
  async (steps) => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "lookup", "slow");
      await its.act(step, "b", "lookup");
      return "done";
    });
    await comes(() => its.log.includes("a"));
    await instances.act(probeEnv, operator, "cancel", id, { reason: "not wanted", undo: false });
    await close(id);
    its.state.go = true;
    await comes(async () => {
      await keeperRound();
      return ["complete", "errored", "terminated"].includes((await platformOf(id)).status);
    });
    expect(its.log).toEqual(["a"]);
    expect((await standing(id)).status).toBe("skipped");
    expect(await rows("SELECT step, state FROM millrace_inbox WHERE instance_id = ?1", id)).toEqual([{ step: "a", state: "done" }]);
  },
);

it("a close is refused for a running instance and for a complete one", async () => {
  const its = scene();
  const id = await play(its, (step) => its.act(step, "a", "natural", "slow"));
  await comes(() => its.log.includes("a"));
  await expect(close(id)).rejects.toMatchObject({ code: "invalid_transition", message: expect.stringContaining("Cancel it first") });
  its.state.go = true;
  await outputOf(id);
  expect(await kept(id, "complete")).toBe("complete");
  await expect(close(id)).rejects.toMatchObject({ code: "invalid_transition", detail: { from: "complete", to: "skipped" } });
});

it("a close is refused for an instance in doubt, and accepted when the inbox entry of its effect is missing", async () => {
  const its = scene();
  its.state.lose = true;
  const id = await play(its, (step) => its.act(step, "b", "once"));
  expect(await kept(id, "in_doubt")).toBe("in_doubt");
  await expect(close(id)).rejects.toMatchObject({ message: expect.stringContaining("in doubt: resolve it") });
  await probeEnv.DB.prepare("DELETE FROM millrace_inbox WHERE instance_id = ?1").bind(id).run();
  expect((await instances.plan(probeEnv, operator, "close", id, {})).refused).toBeNull();
  dieAt("close committed, not applied");
  await expect(close(id)).rejects.toThrow("Died");
  expect(await kept(id, "skipped")).toBe("skipped");
  await comes(async () => {
    await keeperRound();
    return (await rows("SELECT 1 FROM millrace_actions WHERE instance_id = ?1 AND applied_at IS NULL", id)).length === 0;
  });
  expect(await platformOf(id)).toMatchObject({ status: "terminated" });
  expect((await standing(id)).status).toBe("skipped");
});

it.each(["platform", "inline"] as const)(
  "a close of a cancelled instance (step mode %s) is refused while an effect is in doubt, and accepted once an operator has resolved it",
  async (steps) => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const its = scene();
    its.state.lose = true;
    const id = await play(its, (step) => its.act(step, "b", "once"));
    expect(await kept(id, "in_doubt")).toBe("in_doubt");
    await instances.act(probeEnv, operator, "cancel", id, { reason: "not wanted", undo: false });
    const plan = await instances.plan(probeEnv, operator, "close", id, {});
    expect(plan).toMatchObject({
      refused: expect.stringContaining("in doubt: resolve it first"),
      effects: [{ step: "b", verdict: "in_doubt" }],
    });
    await expect(close(id)).rejects.toMatchObject({ message: plan.refused, detail: { from: "terminated", to: "skipped" } });
    await resolve(id, "b", { verb: "retry_anyway" });
    await close(id);
    expect((await standing(id)).status).toBe("skipped");
    expect(await rows("SELECT state FROM millrace_inbox WHERE instance_id = ?1 AND state = 'in_doubt'", id)).toEqual([]);
    expect(its.log).toEqual(["b"]);
  },
);

it("the dry run of a close lists the effects that a failed undo has undone, the remaining ones, and failures without a record", async () => {
  const stuck = { undo: back(() => Promise.reject(upstreamRefused("The van is not available."))) };
  const van = effect("keyed", async () => "a van", stuck);
  const charge = effect("keyed", async () => "a charge", { undo: back(async () => "refunded") });
  const lost = effect("keyed", () => Promise.reject(new Error("The till answered 500.")));
  const { instanceId: id } = await runLab(async ({ step }) => {
    await step.effect("van", van, {});
    await step.effect("charge", charge, {});
    await step.effect("lost", lost, {});
  });
  await failed(id);
  const verdicts = async () =>
    Object.fromEntries((await instances.plan(probeEnv, operator, "close", id, {})).effects.map((one) => [one.step, one.verdict]));
  expect(await verdicts()).toEqual({ van: "kept", charge: "kept", lost: "unknown" });
  await undo(id);
  await failed(id);
  expect(await verdicts()).toEqual({ van: "kept", charge: "undone", lost: "unknown" });
});

it("the dry run of a close reports the effects that remain after an undo and after a failed undo, and the close keeps the field `undone`", async () => {
  let stuck = true;
  const van = effect("keyed", async () => "a van", {
    undo: back(async () => (stuck ? Promise.reject(upstreamRefused("No driver.")) : "back")),
  });
  const { instanceId: id } = await runLab(({ step }) => step.effect("van", van, {}));
  await outputOf(id);
  const consequence = async () => (await instances.plan(probeEnv, operator, "close", id, {})).consequence;
  expect(await consequence()).toContain("Its effects remain.");
  await undo(id);
  await failed(id);
  expect(await consequence()).toContain("Effects that its undo has not undone remain.");
  stuck = false;
  await instances.act(probeEnv, operator, "retry", id, { reason: "the driver is back" });
  expect(await kept(id, "terminated")).toBe("terminated");
  expect(await instances.plan(probeEnv, operator, "close", id, {})).toMatchObject({
    consequence: expect.stringContaining("Its effects are undone already."),
    effects: [{ step: "van", verdict: "undone" }],
  });
  await close(id);
  expect(await standing(id)).toMatchObject({ status: "skipped", undo: "done" });
});
