import fc from "fast-check";
import { cases } from "../proof/arbitrary.ts";
import { type Leaf, leavesOf, withLeaves } from "../proof/program.ts";
import type { Case } from "../proof/prove.ts";
import { withEach } from "../proof/reference.ts";
import { type StepsOfAll, stepsTaken } from "../proof/steps-of-all.ts";

/** Most programs are small, so that many end between the faults; one in this number is of any size. */
const LARGE_EVERY = 4;
const SMALL_STEPS = 8;
const small = cases.filter(({ program }) => leavesOf(program).length <= SMALL_STEPS);

/**
 * The case of a seed, without features that need a surviving process: code that counts its replays, and calls that fail one by one.
 * Restarted once at most, because the faults restart it often enough. A `lookup` has no slow upstream: if the runtime stops for longer
 * than the step waits, the lookup happens before the effect, which is its documented limit.
 */
export function caseOf(seed: number, steps: StepsOfAll): Case {
  const drawn = fc.sample(seed % LARGE_EVERY === 0 ? cases : small, { seed, numRuns: 1 })[0] as Case;
  return withEach(drawn, ({ program, world }) => ({
    program: stepsTaken(withLeaves(program, lasting), steps),
    world: { ...world, restarts: Math.min(world?.restarts ?? 0, 1) },
    faults: [],
  }));
}

function lasting(leaf: Leaf): Leaf {
  if (leaf.do === "throw") return { do: "read" };
  if (leaf.do === "lookup" && leaf.upstream?.is === "slow") return { ...leaf, upstream: undefined };
  if (leaf.do !== "commit" && leaf.do !== "read") return leaf;
  const { fails: _, ...rest } = leaf;
  return rest;
}
