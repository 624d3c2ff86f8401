import { afterEach, expect, it } from "vitest";
import { mode } from "../../probe/mode.ts";
import { reaches } from "../harness.ts";
import { runLab } from "../lab.ts";

afterEach(() => {
  mode.steps = "platform";
});

it.each(["lean", "platform"] as const)("a run of many %s steps leaves timers and requests their turns", async (steps) => {
  mode.steps = steps;
  const done = { steps: 0 };
  const { instanceId } = await runLab(async ({ step }) => {
    for (let nth = 0; nth < 200; nth++) {
      await step.commit("part", () => ({}), { key: String(nth) });
      done.steps++;
    }
  });
  const seen: number[] = [];
  while (done.steps < 200) {
    await scheduler.wait(1);
    seen.push(done.steps);
  }
  // Looked at again and again while it went on, not once at its end.
  expect(new Set(seen).size).toBeGreaterThan(4);
  await reaches(instanceId, "complete");
});
