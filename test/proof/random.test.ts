import fc from "fast-check";
import { expect, it } from "vitest";
import { cases } from "./arbitrary.ts";
import { asked, PATIENCE_MS, sideBySide } from "./asked.ts";
import { inTwoCells, strayed } from "./cells.ts";
import { planned as plannedIn } from "./fault.ts";
import { standBetween } from "./faults.ts";
import { trial } from "./in-process.ts";
import { leavesOf } from "./program.ts";
import type { Alone, Case } from "./prove.ts";
import { withEach } from "./reference.ts";
import { stepsTaken } from "./steps-of-all.ts";

/** The time for a run to converge while a failing case is reduced. */
const SHRINK_PATIENCE_MS = 15_000;

const taken = cases.map((one): Case => withEach(one, ({ program, ...rest }) => ({ ...rest, program: stepsTaken(program, asked.steps) })));

/** The case of a seed. */
const drawn = (seed: number): Case => fc.sample(taken, { seed, numRuns: 1 })[0] as Case;

/** The smallest failing form of a case: a test to paste into cases.test.ts. */
async function smallest(seed: number): Promise<string> {
  const property = fc.asyncProperty(taken, async (one) => (await trial(one, { patienceMs: SHRINK_PATIENCE_MS })).problems.length === 0);
  const interruptAfterTimeLimit = asked.shrinkSeconds * 1000;
  const { counterexample } = asked.shrinkSeconds > 0 ? await fc.check(property, { seed, numRuns: 1, interruptAfterTimeLimit }) : {};
  const how = counterexample ? "" : " // The unreduced case: no smaller case failed within the time limit.";
  return `it("seed ${seed}", () => prove(${JSON.stringify(counterexample?.[0] ?? drawn(seed))}));${how}`;
}

it("the engine keeps every guarantee for every program, failure and operator action", { timeout: 36_000_000 }, async ({ task }) => {
  if (asked.cells > 1) await inTwoCells();
  await standBetween();
  const { seed, seconds, without } = asked;
  // A known finding hides those after it.
  const left = without ? new RegExp(without) : undefined;
  let next = seed;
  const until = Date.now() + seconds * 1000;
  const count = { programs: 0, steps: 0, planned: 0, struck: 0, faulted: 0, commands: 0, effects: 0, waited: 0, replaced: 0 };
  const actions = new Map<string, number>();
  const found: { seed: number; problems: string[] }[] = [];
  await sideBySide(asked.lanes, async () => {
    if (Date.now() > until || found.length >= asked.finds) return false;
    while (left?.test(JSON.stringify(drawn(next)))) next++;
    const own = next++;
    const one = drawn(own);
    const all: Alone[] = [one, ...(one.flow?.beside ?? [])];
    count.programs += all.length;
    const { problems, struck, commands, effects, waited, replaced, actions: done } = await trial(one, { patienceMs: PATIENCE_MS });
    const planned = plannedIn(all.flatMap(({ faults = [] }) => faults));
    count.steps += all.reduce((sum, { program }) => sum + leavesOf(program).length, 0);
    count.waited += waited;
    count.replaced += replaced;
    for (const [verb, n] of Object.entries(done)) actions.set(verb, (actions.get(verb) ?? 0) + n);
    count.commands += commands;
    count.effects += effects;
    count.planned += planned;
    // A fault of the restarts affects each restart.
    count.struck += Math.min(struck, planned);
    if (planned > 0 && struck >= planned) count.faulted++;
    if (problems.length > 0) {
      found.push({ seed: own, problems });
      console.info(`proof: found by seed ${own}: ${problems.join("\n")}`);
    }
    return true;
  });
  if (asked.cells > 1) found.push(...(await strayed()).map((one) => ({ seed, problems: [one] })));
  const { programs, steps, planned, struck, faulted, commands, effects, waited, replaced } = count;
  const faults = `${planned} faults planned, ${struck} happened (${faulted} runs with all of theirs)`;
  const did = [...actions].map(([verb, n]) => `${n} ${verb}`).join(", ") || "nothing";
  task.meta.said = `proof: random programs: seed ${seed}, ${asked.cells} cells, steps ${asked.steps}, ${programs} programs of ${steps} steps, ${commands} commands (${waited} waited, ${replaced} replaced), ${effects} effects, ${faults}, operators' actions ${did}, ${found.length} found`;
  const [first] = found;
  if (first) expect.fail(`${first.problems.join("\n")}\n\n${await smallest(first.seed)}`);
});
