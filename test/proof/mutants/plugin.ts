import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Plugin } from "vitest/config";
import { MUTANTS } from "./all.ts";
import { type Mutant, mutated } from "./mutant.ts";

const ROOT = resolve(import.meta.dirname, "../../..");

/** The separator between the names of mutants that are enabled together. */
const AND = " + ";

/** The environment variable with the names of the enabled mutants. */
export const switchFor = (mutants: readonly Mutant[]): string => mutants.map(({ name }) => name).join(AND);

/** Printed when a mutant's file has been loaded with the bug in it. */
export const effectOf = ({ name }: Mutant): string => `mutant in effect: ${name}`;

/** The requested mutants. Errors: for a name that no mutant has. */
export function chosenMutants(names: string | undefined): Mutant[] {
  if (!names) return [];
  return names.split(AND).map((name) => {
    const found = MUTANTS.find((one) => one.name === name);
    if (!found) throw new Error(`There is no mutant "${name}". There are: ${MUTANTS.map((one) => one.name).join(", ")}.`);
    return found;
  });
}

/** Inserts bugs into the source as it is loaded. Errors: at once if the text to replace is missing. */
export function withMutants(mutants: readonly Mutant[]): Plugin {
  for (const mutant of mutants) mutated(readFileSync(join(ROOT, mutant.file), "utf8"), mutant);
  return {
    name: "mutants",
    enforce: "pre",
    transform(code, id) {
      const own = mutants.filter(({ file }) => id.split("?")[0] === join(ROOT, file));
      if (own.length === 0) return undefined;
      const put = own.reduce(mutated, code);
      for (const mutant of own) console.log(effectOf(mutant));
      return { code: put, map: null };
    },
  };
}

// A type: an interface has no index signature, which the pool's options require.
type Migration = { name: string; queries: string[] };

/** Inserts bugs into the migrations of a folder. */
export function withBugs(folder: string, migrations: readonly Migration[], mutants: readonly Mutant[]): Migration[] {
  return migrations.map(({ name, queries }) => {
    const own = mutants.filter(({ file }) => file === `${folder}/${name}`);
    for (const mutant of own) console.log(effectOf(mutant));
    return { name, queries: queries.map((query) => own.filter(({ find }) => query.includes(find)).reduce(mutated, query)) };
  });
}
