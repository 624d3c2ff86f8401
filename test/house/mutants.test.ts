import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { MUTANTS } from "../proof/mutants/all.ts";
import { AREAS, type Mutant, mutated } from "../proof/mutants/mutant.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** The error of a mutant, as a sentence. */
function faults({ name, file, find, put, killedBy, masked }: Mutant): string[] {
  const faults: string[] = [];
  try {
    const text = readFileSync(join(ROOT, file), "utf8");
    if (mutated(text, { file, find, put }) === text) faults.push(`"${name}" changes nothing.`);
  } catch (error) {
    faults.push(`"${name}" does not fit the source any more: ${(error as Error).message}`);
  }
  if (name.includes(" + ")) faults.push(`"${name}": the plus is kept for mutants that are switched on together.`);
  if (killedBy.startsWith("test/") && !existsSync(join(ROOT, killedBy))) faults.push(`"${name}": there is no ${killedBy}.`);
  if (masked !== undefined && !MUTANTS.some((one) => one.name === masked)) faults.push(`"${name}": there is no mutant "${masked}".`);
  return faults;
}

it("every mutant's text occurs exactly once in its file, and the test that must detect it exists", () => {
  expect(MUTANTS.flatMap(faults)).toEqual([]);
});

it("every mutant has a unique name", () => {
  const names = MUTANTS.map(({ name }) => name);
  expect(names).toEqual([...new Set(names)]);
});

it("every area has mutants, and together they are at least thirty", () => {
  expect([...new Set(MUTANTS.map(({ area }) => area))].toSorted()).toEqual(AREAS.toSorted());
  expect(MUTANTS.length).toBeGreaterThanOrEqual(30);
});
