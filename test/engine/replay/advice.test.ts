import { defineStep, type EffectCall } from "millrace";
import { instances } from "millrace/operate";
import { expect, inject, it, onTestFinished, vi } from "vitest";
import { advise } from "../../../packages/millrace/src/replay/advice.ts";
import { fresh, operator, probeEnv } from "../harness.ts";
import { platformReaches, runLab } from "../lab.ts";
import { ended } from "../operate/operating.ts";

interface Advice {
  readonly instance_id: string;
  readonly step: string;
  readonly said: string;
}

function hearing(): (instanceId: string) => Advice[] {
  const warn = vi.spyOn(console, "warn");
  onTestFinished(() => warn.mockRestore());
  return (instanceId) =>
    warn.mock.calls
      .map(([line]) => String(line))
      .filter((line) => line.startsWith('{"log":"advice"'))
      .map((line): Advice => JSON.parse(line))
      .filter(({ instance_id }) => instance_id === instanceId);
}

const upstream = inject("upstreamUrl");
const look = () => fetch(`${upstream}/log?of=nobody`).then(({ status }) => status);

it("an effect that the code did not await is executed, and the log names it", async () => {
  const heard = hearing();
  const { instanceId } = await runLab(async ({ step }) => {
    void step.commit("send shipping note", () => ({}));
    const [first] = await Promise.all([step.commit("awaited with another", () => ({ output: 1 })), step.commit("the other", () => ({}))]);
    await Promise.race([step.commit("wins", () => ({})), step.commit("loses", () => ({}))]);
    step.commit("failure is handled", () => ({})).catch(() => undefined);
    return first;
  });
  expect(await ended(instanceId)).toBe("complete");
  expect(heard(instanceId)).toMatchObject([{ step: "send shipping note", said: expect.stringContaining("The step was not awaited") }]);
});

it("a step name with a date, an id or a long number is reported once without its digits, and a number of a version is not", async () => {
  const heard = hearing();
  const { instanceId } = await runLab(async ({ step }) => {
    for (const name of ["report of 2026-11-30", "report of 2026-12-01", "order 104711", "import v2 of 1000"])
      await step.commit(name as "literal", () => ({}));
  });
  expect(await ended(instanceId)).toBe("complete");
  const said = expect.stringContaining("The step name contains data");
  expect(heard(instanceId)).toMatchObject([
    { step: "report of …-…-…", said },
    { step: "order …", said },
  ]);
});

it("in development a keyed step that does not read its key is reported; a correct keyed step and a natural step are not", async () => {
  const heard = hearing();
  const effect = async ({ input }: EffectCall<string>) => input;
  const forgets = defineStep({ effect: "keyed", run: effect });
  const sends = defineStep({ effect: "keyed", run: async ({ key }: EffectCall<string>) => key });
  const knows = defineStep({ effect: "keyed", key: (id: string) => `order ${id}`, run: async ({ key }: EffectCall<string>) => key });
  const passesOn = defineStep({ effect: "keyed", run: (call: EffectCall<string>) => sends.run(call) });
  const { instanceId } = await runLab(async ({ step }) => {
    await step.effect("charge card", forgets, "a");
    await step.effect("charge it well", sends, "a");
    await step.effect("charge it elsewhere", passesOn, "a");
    expect(await step.effect("charge by order id", knows, "a")).toBe("order a");
    await step.effect("put it", defineStep({ effect: "natural", run: effect }), "a");
  });
  expect(await ended(instanceId)).toBe("complete");
  expect(heard(instanceId)).toMatchObject([{ step: "charge card", said: expect.stringContaining("did not read `key`") }]);
});

it("in development a fetch between steps is reported, and a fetch in a step is not", async () => {
  const heard = hearing();
  const inside = await runLab(async ({ step }) => {
    await step.read("look", look);
    await step.effect("act", defineStep({ effect: "natural", run: async ({ fetch }) => (await fetch(`${upstream}/log?of=x`)).status }), {});
    await step.commit("note", async () => ({ output: await look() }));
    return Promise.all([step.map(["a", "b"], { key: String }, (_, each) => each.read("look at one", look))]);
  });
  expect(await ended(inside.instanceId)).toBe("complete");
  expect(heard(inside.instanceId)).toEqual([]);

  const outside = await runLab(async ({ step }) => {
    await step.read("look", look);
    return look();
  });
  expect(await ended(outside.instanceId)).toBe("complete");
  expect(heard(outside.instanceId)).toMatchObject([{ step: "", said: expect.stringContaining("fetch outside a step") }]);
});

it.each([
  ["a Map", () => new Map([["a", 1]]), {}, "a Map"],
  ["a Date within", () => ({ at: new Date(0) }), { at: "1970-01-01T00:00:00.000Z" }, 'a Date at "at"'],
  ["a function", () => () => 1, null, "a function"],
  ["NaN within", () => ({ free: true, raw: 0 / 0 }), { free: true, raw: null }, 'NaN at "raw"'],
  ["undefined in a list", () => [1, undefined], [1, null], 'undefined at "1"'],
  [
    "half a character",
    () => ({ said: `\\${"Great 😀".slice(0, 7)}`, same: "\\ud83d" }),
    { said: "\\Great \uFFFD", same: "\\ud83d" },
    'half a character at "said"',
  ],
  ["a RegExp's match", () => /(b)/.exec("ab"), ["b", "b"], "the match of a RegExp"],
  [
    "an object of a class",
    () =>
      new (class Money {
        cents = 7;
      })(),
    { cents: 7 },
    "an object of the class Money",
  ],
])("a run with a result that is or has %s completes with the result's JSON, and the loss is reported", async (_, make, result, what) => {
  const heard = hearing();
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("note", () => ({}));
    return make();
  });
  expect(await ended(instanceId)).toBe("complete");
  await platformReaches(instanceId, "complete");
  const said = `Its result has ${what}, which JSON changes or leaves out.`;
  expect(await instances.describe(probeEnv, operator, instanceId)).toMatchObject({ result, result_changed: said });
  expect(heard(instanceId)).toMatchObject([{ step: "", said: expect.stringContaining(said) }]);
});

it("an undefined result, or an undefined field of a result, is not reported as a loss", async () => {
  const heard = hearing();
  const nothing = await runLab(async () => undefined);
  const left = await runLab(async () => ({ a: undefined, b: 1 }));
  for (const { instanceId } of [nothing, left]) expect(await platformReaches(instanceId, "complete")).toBe("complete");
  const kept = { result: null, result_changed: null };
  expect(await instances.describe(probeEnv, operator, nothing.instanceId)).toMatchObject(kept);
  expect(await instances.describe(probeEnv, operator, left.instanceId)).toMatchObject({ ...kept, result: { b: 1 } });
  expect([...heard(nothing.instanceId), ...heard(left.instanceId)]).toEqual([]);
});

it("a deployed engine reports a problem of a workflow once per isolate, for any number of runs", () => {
  const heard = hearing();
  const workflow = fresh("advised");
  const ids = [fresh("one"), fresh("two")];
  for (const instanceId of ids) advise({ env: { ...probeEnv, MILLRACE_DEVELOPMENT: "" }, workflow, instanceId }, "a", "It is so.");
  expect(ids.flatMap(heard)).toHaveLength(1);
});
