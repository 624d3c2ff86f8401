import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { operator, probeEnv, reaches } from "../../harness.ts";
import { errorOf, refuse } from "../../lab.ts";
import { type Code, inline, onPlatform, runIn, upstream, withRecordersThatKnow } from "./running.ts";

withRecordersThatKnow();

it("a successful run of inline steps has records in the inbox only, and the API lists its steps like those of another run", async () => {
  const code: Code = async ({ step }) => {
    await step.effect("first", upstream().definition, "a");
    await step.effect("second", upstream("keyed").definition, "b");
    await step.commit("third", () => ({ output: 3 }));
  };
  const id = await inline(code);
  const { instanceId: other } = await runIn("platform", code);
  await reaches(other, "complete");
  expect(await onPlatform(id)).toEqual([]);
  expect(await onPlatform(other)).toEqual(["first", "second", "third"]);
  const shown = async (instance: string) => {
    const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, instance));
    return steps.map(({ name, state, started_at, ended_at, attempts, effects }) => ({
      name,
      state,
      attempts: attempts.map(({ attempt, error }) => ({ attempt, error })),
      effects: effects.map(({ class: its, state }) => ({ its, state })),
      timed: started_at !== null && ended_at !== null && ended_at >= started_at && attempts.every(({ ended_at: at }) => at !== null),
    }));
  };
  expect(await shown(id)).toEqual(await shown(other));
  expect((await shown(id)).every(({ timed }) => timed)).toBe(true);
  const steps = async (instance: string) => (await instances.describe(probeEnv, operator, instance)).cost.parts.steps;
  expect(await steps(id)).toMatchObject({ amount: 0, mark: "counted" });
  expect(await steps(other)).toMatchObject({ amount: 3, mark: "counted" });
});

it("steps with an output that a restarted run reuses are listed with a mark", async () => {
  const state = { broken: true };
  const code: Code = async ({ step }) => {
    await step.commit("kept", () => ({}));
    await step.commit("the platform's", () => ({}), { steps: "platform" });
    await step.commit("also kept", () => ({}));
    await step.commit("fails", () => (state.broken ? refuse() : {}), { retries: { limit: 0, delay: 10 } });
    await step.commit("last", () => ({}));
  };
  const id = await inline(code);
  expect(await errorOf(id)).toMatchObject({ step: "fails" });
  state.broken = false;
  await instances.act(probeEnv, operator, "restart", id, { reason: "Mended." });
  await reaches(id, "complete");
  const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, id));
  expect(steps.map(({ name, kept }) => [name, kept])).toEqual([
    ["kept", true],
    ["the platform's", false],
    ["also kept", true],
    ["fails", false],
    ["last", false],
  ]);
});

it("an undone inline step is listed with its duration, before its undo step", async () => {
  const id = await inline(async ({ step }) => {
    await step.commit("put", () => ({}), { undo: () => ({}) });
    await step.commit("stays", () => ({}));
  });
  const shown = async () => {
    const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, id));
    return steps.find(({ name }) => name === "put");
  };
  const before = await shown();
  expect(before).toMatchObject({ mode: "inline", state: "complete", ended_at: expect.any(String) });
  await instances.act(probeEnv, operator, "undo", id, { reason: "Called off." });
  await reaches(id, "terminated");
  expect(await shown()).toMatchObject({ mode: "inline", started_at: before?.started_at, ended_at: before?.ended_at });
  const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, id));
  expect(steps.map(({ name, kept }) => [name, kept])).toEqual([
    ["put", false],
    ["stays", false],
    ["undo put", false],
  ]);
});
