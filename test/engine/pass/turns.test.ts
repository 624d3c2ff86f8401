import { afterEach, expect, it } from "vitest";
import { mode } from "../../probe/mode.ts";
import { reaches } from "../harness.ts";
import { runLab } from "../lab.ts";

/** The maximum of unchecked turns of a run: a run that yields no turns uses all of them. */
const MOST_STEPS = 1000;

afterEach(() => {
  mode.steps = "platform";
});

it.each(["lean", "platform"] as const)("a run of many %s steps does not block timers and requests", async (steps) => {
  mode.steps = steps;
  const done = { steps: 0, all: false };
  const seen = new Set<number>();
  // A quick machine is looked at fewer times in as many steps.
  const { instanceId } = await runLab(async ({ step }) => {
    while (seen.size <= 4 && done.steps < MOST_STEPS) {
      await step.commit("part", () => ({}), { key: String(done.steps) });
      done.steps++;
    }
    done.all = true;
  });
  while (!done.all) {
    await scheduler.wait(1);
    seen.add(done.steps);
  }
  // Polled repeatedly while it ran, not once at its end.
  expect(seen.size).toBeGreaterThan(4);
  await reaches(instanceId, "complete");
});
