import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { mode } from "../../../probe/mode.ts";
import { keeperRound, operator, probeEnv, reaches, rows, until } from "../../harness.ts";
import { held, platformReaches, refuse } from "../../lab.ts";
import { type Code, runIn, upstream, withRecordersThatKnow } from "./running.ts";

withRecordersThatKnow();

it("an undo and a retry succeed after a change of the step mode", async () => {
  const names: string[] = [];
  const note = (what: string) => {
    names.push(what);
    return {};
  };
  const { calls, definition } = upstream();
  const code: Code = async ({ step }) => {
    await step.effect("act", definition, "a");
    await step.commit("row", () => note("row"), { undo: () => note("back") });
    await step.commit("last", () => (names.includes("mended") ? {} : refuse()), { retries: { limit: 0, delay: 10 } });
  };
  for (const [first, second] of [
    ["inline", "platform"],
    ["platform", "inline"],
  ] as const) {
    names.length = 0;
    calls.length = 0;
    const { instanceId } = await runIn(first, code);
    await platformReaches(instanceId, "errored");
    await reaches(instanceId, "errored");
    names.push("mended");
    mode.steps = second;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(calls).toEqual(["a"]);
    mode.steps = first;
    await platformReaches(instanceId, "complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "again" });
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    mode.steps = second;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "again" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(names).toEqual(["row", "mended", "back", "row"]);
    expect(calls).toEqual(["a"]);
  }
});

it("W23 a cancel waits for a running inline effect and its record", async () => {
  const { calls, state, definition } = upstream();
  const { instanceId } = await runIn("inline", async ({ step }) => {
    await step.read("long ago", async () => 1);
    await scheduler.wait(1300);
    await step.commit("before", () => ({}));
    state.takesMs = 800;
    await step.effect("act", definition, "a");
    await step.effect("never", definition, "b");
  });
  // The effect takes 800 ms, less than the limit of an inline attempt.
  await held(() => calls.length === 1);
  await instances.act(probeEnv, operator, "cancel", instanceId, { reason: "not wanted", undo: false });
  await until(async () => {
    await keeperRound();
    return (await platformReaches(instanceId, "complete", "errored", "terminated")) !== "";
  }, Boolean);
  expect(calls).toEqual(["a"]);
  expect(await rows("SELECT step, state FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position", instanceId)).toEqual([
    { step: "before", state: "done" },
    { step: "act", state: "done" },
  ]);
});
