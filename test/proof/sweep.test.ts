import fc from "fast-check";
import { expect, it } from "vitest";
import { asked, sideBySide } from "./asked.ts";
import { BOUNDARIES, type Fault, PHASES, WAYS } from "./fault.ts";
import { standBetween } from "./faults.ts";
import { trial } from "./in-process.ts";
import type { Case } from "./prove.ts";
import { REFERENCE, REFERENCE_FLOW, withEach } from "./reference.ts";
import { stepsTaken } from "./steps-of-all.ts";
import type { World } from "./world.ts";

/** Number of concurrently tested runs. */
const LANES = 5;
/** Each reference program runs all phases, so that each boundary is crossed in each. */
const world = { restarts: 1, ends: "undone", large: true } satisfies Partial<World>;

/** The maximum of failures: each takes a minute. */
const ENOUGH = 3;

it("the engine keeps every guarantee for every single failure, at any boundary that a reference program crosses", {
  timeout: 36_000_000,
}, async ({ task }) => {
  await standBetween();
  const { seed, seconds, without } = asked;
  const left = without ? new RegExp(without) : undefined;
  const plan: Case[] = [];
  const found: string[] = [];
  const note = (problems: readonly string[], one: Case) => {
    if (problems.length === 0) return;
    found.push(`${problems.join("\n")}\nit("…", () => prove(${JSON.stringify(one)}));`);
    console.info(`proof: found ${found.at(-1)}`);
  };
  const programs = Object.values(REFERENCE).flatMap((program) => [program, stepsTaken(program, "inline")]);
  const cases: Case[] = [...programs.map((program) => ({ program, world })), ...REFERENCE_FLOW].filter(
    (one) => !left?.test(JSON.stringify(one)),
  );
  const { length } = cases;
  await sideBySide(LANES, async () => {
    const whole = cases.pop();
    if (!whole) return false;
    const { problems, crossed } = await trial(whole);
    note(problems, whole);
    for (const phase of PHASES)
      for (const boundary of BOUNDARIES)
        for (let nth = 0; nth < (crossed[phase]?.[boundary] ?? 0); nth++)
          for (const way of WAYS)
            plan.push(withEach(whole, (one) => ({ ...one, faults: [{ phase, boundary, nth, way } satisfies Fault] })));
    return true;
  });

  const order = asked.whole ? plan : (fc.sample(fc.shuffledSubarray(plan, { minLength: plan.length }), { seed, numRuns: 1 })[0] ?? []);
  const until = asked.whole ? Number.POSITIVE_INFINITY : Date.now() + seconds * 500;
  const count = { trials: 0, struck: 0 };
  await sideBySide(LANES, async () => {
    const one = order[count.trials];
    if (!one || Date.now() > until || found.length >= ENOUGH) return false;
    count.trials++;
    const { problems, struck } = await trial(one);
    count.struck += struck;
    note(problems, one);
    return true;
  });
  const { trials, struck } = count;
  const faults = `${plan.length} single faults, ${trials} planned, ${struck} happened`;
  task.meta.said = `proof: reference programs: seed ${seed}, ${length} programs, ${faults}, ${found.length} found`;
  expect(found).toEqual([]);
});
