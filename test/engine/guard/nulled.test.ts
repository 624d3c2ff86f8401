import { defineCommand, defineStep, defineWorkflow, type Steps } from "millrace";
import { catalog } from "millrace/worker";
import { expect, it } from "vitest";
import * as z from "zod";
import type { MessageDefinition } from "../../../packages/millrace/src/contract/message.ts";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { startsOf } from "../../probe/consumers.ts";
import { probeCommands } from "../../probe/messages.ts";
import { fresh, probeEnv } from "../harness.ts";
import { errorOf, outputOf, runLab } from "../lab.ts";
import { effect, ended, ONCE } from "../operate/operating.ts";

const tenant = { tenantId: "acme", source: "test" };
const asking = <Payload>(on: MessageDefinition<Payload, string>) =>
  catalog({ consumers: [startsOf(defineWorkflow({ name: "lab", on, run: async () => 1 }))] });

it.each([
  ["commit", (step: Steps) => step.commit("average", () => ({ output: averageOf([]) }))],
  ["read", (step: Steps) => step.read("average", async () => averageOf([]), ONCE)],
  ["keyed effect", (step: Steps) => step.effect("average", averaging, {})],
])("W11 a %s with NaN in its output fails, because JSON would change NaN to null", async (_, take) => {
  let isFree: boolean | undefined;
  const { instanceId } = await runLab(async ({ step }) => {
    isFree = (await take(step)).average < 10;
  });
  expect(await ended(instanceId)).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({
    step: "average",
    code: "output_not_serializable",
    message: expect.stringContaining('NaN at "average"'),
  });
  expect(isFree).toBeUndefined();
});

const half = "Great 😀".slice(0, 7);

it.each([
  ["half of a surrogate pair", { said: ["\\ud83d", half] }, 'half a character at "said.1"'],
  ["half of a surrogate pair after a backslash", { said: `\\${half}` }, 'half a character at "said"'],
  ["half of a surrogate pair in a name", { said: { [half]: 1 } }, 'half a character in a name at "said"'],
  ["a RegExp's match", { said: /(?<first>a)/.exec("ba") as unknown }, 'the match of a RegExp at "said"'],
])("W11 an output with %s is refused in a commit, a read and an effect, and the error names the path", async (_, output, says) => {
  const doing = effect("keyed", async () => output);
  for (const take of [
    (step: Steps) => step.commit("say", () => ({ output: output as never })),
    (step: Steps) => step.read("say", async () => output as never, ONCE),
    (step: Steps) => step.effect("say", doing, {}),
  ]) {
    const { instanceId } = await runLab(({ step }) => take(step));
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({
      step: "say",
      code: "output_not_serializable",
      message: expect.stringContaining(says),
    });
  }
});

it("W11 an output of well-formed Unicode is stored unchanged, also when it contains the text of an escaped surrogate", async () => {
  const output = { said: ["\\ud83d", "\\\\udc00", "😀", "\n\\ud8"], "\\ud83d": 1 };
  const { instanceId } = await runLab(({ step }) => step.commit("say", () => ({ output })));
  expect(await ended(instanceId)).toBe("complete");
  expect(await outputOf(instanceId)).toEqual(output);
});

const averageOf = (prices: readonly number[]) => ({ average: prices.reduce((sum, price) => sum + price, 0) / prices.length });
const averaging = defineStep({ effect: "keyed", ...ONCE, run: async () => averageOf([]) });

it.each([
  ["NaN", { average: 0 / 0 }, "average"],
  ["Infinity", { rates: [1, { max: 1 / 0 }] }, "rates.1.max"],
  ["undefined in a list", { list: [1, undefined] }, "list.1"],
  ["a hole in a list", { list: Object.assign([], { 2: 1 }) }, "list.0"],
])("a message with %s in its payload is refused when it is emitted or enqueued, and the error names the path", async (_, payload, path) => {
  const Loose = defineCommand({
    type: "lab.loose",
    payload: z.looseObject({}),
    key: () => fresh(),
    subject: () => "s",
    queue: probeCommands,
  });
  const { instanceId } = await runLab(({ step }) => step.commit("say", () => ({ emit: [Loose.from(payload)] })));
  expect(await ended(instanceId)).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({ step: "say", code: "invalid_payload", message: expect.stringContaining(path) });
  const [answer] = await acceptCommands(probeEnv, asking(Loose as never), tenant, [{ type: "lab.loose", payload }]);
  expect(answer).toMatchObject({ code: "invalid_payload", detail: { issues: [{ path }] } });
});
