import { defineStep, type Steps } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { platformId } from "../../../packages/millrace/src/contract/ids.ts";
import { mode } from "../../probe/mode.ts";
import { operator, probeEnv, rows } from "../harness.ts";
import { platformReaches, runLab } from "../lab.ts";
import { ended, ONCE, stateOf, undo } from "./operating.ts";
import { comes, kept } from "./scene.ts";
import { begin, till } from "./till.ts";

const ways = (["platform", "inline"] as const).flatMap((steps) => (["keyed", "natural"] as const).map((of) => [of, steps] as const));

const of = (step: string, verdict: string) => ({ step, item: "", verdict });
const sleeps = (step: Steps) => step.sleep("night", "1 hour");
const fails = (step: Steps) =>
  step.effect("last", defineStep({ effect: "once", ...ONCE, run: () => Promise.reject(new Error("No.")) }), {});

it.each(ways)(
  "an undo repeats a %s effect with lost answers and a caught failure (step mode %s), and then undoes it",
  async (effect, steps) => {
    const { id, state } = await begin(steps, effect);
    expect(await ended(id)).toBe("complete");
    expect((await instances.plan(probeEnv, operator, "undo", id, {})).effects).toEqual([of("pay", "repeated"), of("owe", "undone")]);
    state.mended = true;
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(state).toEqual({ mended: true, stands: false, asked: 2 });
    expect((await instances.plan(probeEnv, operator, "undo", id, {})).effects).toEqual([]);
  },
);

it.each(ways)(
  "a cancel during a sleep repeats and undoes a %s effect with a caught failure that may have happened (step mode %s)",
  async (effect, steps) => {
    const { id, state } = await begin(steps, effect, sleeps);
    await comes(async () => (await stateOf(id, "owe")) === "done");
    const { effects } = await instances.plan(probeEnv, operator, "cancel", id, {});
    expect(effects).toEqual([of("pay", "repeated"), of("owe", "undone")]);
    expect((await instances.plan(probeEnv, operator, "cancel", id, { undo: false })).effects).toEqual([
      of("pay", "unknown"),
      of("owe", "kept"),
    ]);
    expect((await instances.plan(probeEnv, operator, "pause", id, {})).effects).toEqual([of("owe", "kept"), of("pay", "caught")]);
    state.mended = true;
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(state).toEqual({ mended: true, stands: false, asked: 2 });
  },
);

it.each(ways)(
  "an undo repeats and undoes a %s effect whose answers were lost, so that its run failed (step mode %s)",
  async (effect, steps) => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const { state, pay } = till(effect);
    const { instanceId: id } = await runLab(({ step }) => step.effect("pay", pay, {}));
    expect(await ended(id)).toBe("errored");
    expect(await instances.plan(probeEnv, operator, "undo", id, {})).toMatchObject({ refused: null, effects: [of("pay", "repeated")] });
    state.mended = true;
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(state).toEqual({ mended: true, stands: false, asked: 2 });
  },
);

it("an undo fails while the upstream of an unrecorded effect is unavailable; after a skip the effect is recorded as possibly remaining", async () => {
  const { id, state } = await begin("platform", "keyed");
  expect(await ended(id)).toBe("complete");
  await undo(id);
  expect(await kept(id, "terminated", "errored")).toBe("errored");
  const [row] = await rows<{ undo: string }>("SELECT undo FROM millrace_instances WHERE id = ?1", id);
  await platformReaches(platformId(id, row?.undo ?? null), "errored");
  expect((await instances.plan(probeEnv, operator, "retry", id, {})).effects).toEqual([of("pay", "repeated"), of("owe", "undone")]);
  await instances.act(probeEnv, operator, "skip", id, { step: "pay", reason: "the till is sold" });
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  expect(state).toEqual({ mended: false, stands: true, asked: 2 });
  expect((await instances.plan(probeEnv, operator, "undo", id, {})).effects).toEqual([of("pay", "unknown")]);
});

it.each(["keyed", "lookup"] as const)(
  "the dry runs of a retry, a restart and a skip report that the caught failure of a %s effect is thrown again",
  async (effect) => {
    const { id } = await begin("platform", effect, fails);
    await comes(async () => (await stateOf(id, "last")) !== undefined);
    const verdictOf = ({ effects }: { effects: readonly { step: string; verdict: string }[] }) =>
      effects.find(({ step }) => step === "pay")?.verdict;
    const plans = [
      await instances.plan(probeEnv, operator, "retry", id, {}),
      await instances.plan(probeEnv, operator, "restart", id, {}),
      await instances.plan(probeEnv, operator, "skip", id, { step: "last", output: null }),
    ];
    expect(plans.map(verdictOf)).toEqual(["caught", "caught", "caught"]);
  },
);

it.each(["platform", "inline"] as const)(
  "a dry run does not report a lookup effect with a caught failure as running while its run sleeps (step mode %s)",
  async (steps) => {
    const { id } = await begin(steps, "lookup", sleeps);
    await comes(async () => (await stateOf(id, "owe")) === "done");
    expect((await instances.plan(probeEnv, operator, "cancel", id, {})).effects).toEqual([of("owe", "undone"), of("pay", "asked")]);
    for (const verb of ["pause", "restart"] as const) {
      expect((await instances.plan(probeEnv, operator, verb, id, {})).effects).toEqual([of("pay", "caught"), of("owe", "kept")]);
    }
  },
);
