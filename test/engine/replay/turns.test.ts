import { afterEach, expect, it } from "vitest";
import { History } from "../../../packages/millrace/src/replay/history.ts";
import type { Seen } from "../../../packages/millrace/src/store/inbox/entry.ts";
import { mode } from "../../probe/mode.ts";
import { reaches } from "../harness.ts";
import { runLab } from "../lab.ts";

/** The maximum number of steps: a run that never yields to other tasks executes all of them. */
const MOST_STEPS = 1000;
/** The number of polls during a run that yields. A run that does not yield permits one poll before its first step, and one after its last. */
const POLLS = 3;

afterEach(() => {
  mode.steps = "platform";
});

it.each(["inline", "platform"] as const)("a run of many %s steps does not block timers and requests", async (steps) => {
  mode.steps = steps;
  const done = { steps: 0, all: false };
  const seen = new Set<number>();
  // The number of polls per step is lower on a fast machine.
  const { instanceId } = await runLab(async ({ step }) => {
    while (seen.size < POLLS && done.steps < MOST_STEPS) {
      await step.commit("part", () => ({}), { key: String(done.steps) });
      done.steps++;
    }
    done.all = true;
  });
  while (!done.all) {
    await scheduler.wait(1);
    seen.add(done.steps);
  }
  // The number of distinct polls shows that timers fired while the run was executing.
  expect(seen.size).toBeGreaterThanOrEqual(POLLS);
  await reaches(instanceId, "complete");
});

it("a replay finds the next of 2,000 recorded parallel steps within a millisecond", () => {
  const names = Array.from({ length: 2000 }, (_, nth) => `step ${nth}`);
  const entries = names.map((step, position) => {
    const after = position === 0 ? null : JSON.stringify([position - 1, names[position - 1]]);
    return { step, item: "", generation: 1, position, after, caught: null, state: "done", token: "" } as unknown as Seen;
  });
  const history = new History(entries);
  const settled = new Set<string>();
  const since = Date.now();
  for (const name of names) {
    const hasSettled = (label: string) => settled.has(label);
    const replay = { hasBegun: (label: string) => hasSettled(label) || label === name, hasSettled, isSkipped: () => false };
    expect(history.uncalledBy(replay)).toBeUndefined();
    settled.add(name);
  }
  expect(Date.now() - since).toBeLessThan(names.length);
});
