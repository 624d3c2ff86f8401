import fc from "fast-check";
import { cases } from "../proof/arbitrary.ts";
import { leavesOf, type Program } from "../proof/program.ts";
import type { Case } from "../proof/prove.ts";

/** Most programs are small, so that many come to their ends between the faults; one in so many is of any size. */
const LARGE_EVERY = 4;
const SMALL_STEPS = 8;
const small = cases.filter(({ program }) => leavesOf(program).length <= SMALL_STEPS);

/**
 * The case of a seed, without what only a process that lives on can do: code that remembers how often it ran, and calls that fail one by
 * one. Restarted once at most: the faults restart it often enough. A `lookup` has no upstream that is slow: a runtime that stands still for
 * longer than the step waits makes it ask before that has happened, which is its stated limit.
 */
export function caseOf(seed: number): Case {
  const { program, world } = fc.sample(seed % LARGE_EVERY === 0 ? cases : small, { seed, numRuns: 1 })[0] as Case;
  return { program: lasting(program), world: { ...world, restarts: Math.min(world?.restarts ?? 0, 1) } };
}

function lasting(program: Program): Program {
  if ("parts" in program) return { ...program, parts: program.parts.map(lasting) };
  if ("next" in program) return { ...program, part: lasting(program.part), next: lasting(program.next) };
  if ("part" in program) return { ...program, part: lasting(program.part) };
  if (program.do === "throw") return { do: "read" };
  if (program.do === "lookup" && program.upstream?.is === "slow") return { ...program, upstream: undefined };
  if (program.do !== "commit" && program.do !== "read") return program;
  const { fails: _, ...rest } = program;
  return rest;
}
