import { defineStep, notRetryable, type Steps, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import type { StepDefinition } from "../../../packages/millrace/src/guard/step.ts";
import { operator, probeEnv } from "../harness.ts";
import { runLab } from "../lab.ts";
import { back, effect, ended, failed, ONCE, retry, undo } from "./operating.ts";

const verdictsOf = async (id: string, verb: "undo" | "retry") =>
  (await instances.plan(probeEnv, operator, verb, id, {})).effects.map(({ step, verdict }) => [step, verdict]);

/** A run that ends by the failure of a read, while an effect is in progress. The answer of the effect is lost, or the effect is refused. */
async function endsBesideEffect(error: Error, limit = 0) {
  const did: string[] = [];
  const state = { isBroken: true };
  const pay = async () => {
    await scheduler.wait(50);
    did.push("pay");
    if (state.isBroken) throw error;
  };
  const slow = { ...effect("natural", pay, { undo: back(async () => void did.push("refund")) }), retries: { limit, delay: 60_000 } };
  const check = () => (state.isBroken ? Promise.reject(notRetryable("Broken.")) : 1);
  const { instanceId } = await runLab(({ step }) =>
    Promise.all([step.effect("pay", defineStep(slow as StepDefinition<object, unknown>), {}), step.read("check", check as never, ONCE)]),
  );
  await failed(instanceId);
  expect(did).toEqual(["pay"]);
  state.isBroken = false;
  return { instanceId, did };
}

it.each([0, 3])(
  "W20 an undo repeats and undoes an effect that lost its answer after the end of the code, with %i retries",
  async (limit) => {
    const { instanceId, did } = await endsBesideEffect(new Error("The answer was lost."), limit);
    expect(await verdictsOf(instanceId, "undo")).toEqual([["pay", "repeated"]]);
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    expect(did).toEqual(["pay", "pay", "refund"]);
  },
);

it("W20 an undo does not repeat an effect that the upstream refused after the end of the code", async () => {
  const { instanceId } = await endsBesideEffect(upstreamRefused("Refused."));
  await expect(undo(instanceId)).rejects.toThrow("no recorded effect that can be undone");
});

it("the dry run of a retry lists an effect that lost its answer after the end of the code", async () => {
  const { instanceId, did } = await endsBesideEffect(new Error("The answer was lost."));
  expect(await verdictsOf(instanceId, "retry")).toEqual([
    ["pay", "runs"],
    ["check", "runs"],
  ]);
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(did).toEqual(["pay", "pay"]);
});

it("the dry run of a retry after an undo names a caught failure that a remaining effect follows", async () => {
  const did: string[] = [];
  const act = (name: string, more: Parameters<typeof effect>[2] = {}) => effect("natural", async () => void did.push(name), more);
  const refused = effect("once", () => Promise.reject(upstreamRefused("Refused.")));
  const { instanceId } = await runLab(async ({ step }: { step: Steps }) => {
    await step.effect("refused", refused, {}).catch(() => undefined);
    await step.effect("remains", act("remains"), {});
    await step.effect("undone", act("undone", { undo: back(async () => null) }), {});
  });
  expect(await ended(instanceId)).toBe("complete");
  await undo(instanceId);
  expect(await ended(instanceId)).toBe("terminated");
  expect(await verdictsOf(instanceId, "retry")).toEqual([
    ["refused", "caught"],
    ["remains", "kept"],
    ["undone", "runs"],
  ]);
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(did).toEqual(["remains", "undone", "undone"]);
});
