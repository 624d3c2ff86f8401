import fc from "fast-check";
import { cases } from "../proof/arbitrary.ts";
import type { Program } from "../proof/program.ts";
import type { Case } from "../proof/prove.ts";

/** The case of a seed, without what only a process that lives on can do: code that remembers how often it ran, calls that fail one by one. */
export function caseOf(seed: number): Case {
  const { program, world = {} } = fc.sample(cases, { seed, numRuns: 1 })[0] as Case;
  return { program: lasting(program), world };
}

function lasting(program: Program): Program {
  if ("parts" in program) return { ...program, parts: program.parts.map(lasting) };
  if ("next" in program) return { ...program, part: lasting(program.part), next: lasting(program.next) };
  if ("part" in program) return { ...program, part: lasting(program.part) };
  if (program.do === "throw") return { do: "read" };
  if (program.do !== "commit" && program.do !== "read") return program;
  const { fails: _, ...rest } = program;
  return rest;
}
