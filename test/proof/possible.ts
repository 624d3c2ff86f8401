// The expected result of a program stopped midway: this file must not import from `src/`.
import { type Expectation, effectsOf } from "./model.ts";
import { type Program, partsOf, ROOT } from "./program.ts";

/** The possible effects of a program that an operator has stopped: each effect, or none of it. Sequential parts have a certain order. */
export function possibleOf(program: Program): Expectation {
  const effects = new Map(effectsOf(program).map((one) => [one.at, { ...one, least: 0 as const }]));
  return { effects, order: orderOf(program, ROOT), story: [], problems: [] };
}

/** Pairs of effects of which the later one starts only after the earlier one is done. */
function orderOf(program: Program, at: string): [earlier: string, later: string][] {
  const parts = partsOf(program, at);
  const inner = parts.flatMap((part) => orderOf(part.program, part.at));
  if (program.do !== "seq" && program.do !== "loop") return inner;
  const before = (index: number) => parts.slice(0, index).flatMap((part) => surelyOver(part.program, part.at));
  const behind = parts.flatMap((part, index) =>
    effectsOf(part.program, part.at).flatMap((later) => before(index).map((earlier): [string, string] => [earlier, later.at])),
  );
  return [...inner, ...behind];
}

/** Effects of a part that are done if the code has continued after it, excluding effects that may still run. */
function surelyOver(program: Program, at: string): string[] {
  if (program.do === "race" || program.do === "try" || program.do === "beside") return [];
  if (!("part" in program) && !("parts" in program)) return effectsOf(program, at).map((one) => one.at);
  return partsOf(program, at).flatMap((part) => surelyOver(part.program, part.at));
}
