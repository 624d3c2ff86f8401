import { MUTANTS } from "./all.ts";
import type { Killer, Mutant } from "./mutant.ts";
import { type Ended, isFile, projectOf, type Trying, tryOut } from "./try.ts";

/** The result of a mutant: detected by a seed or a test; survived; or inconclusive, because it broke the run itself. */
export interface Result {
  name: string;
  area: string;
  did: "killed" | "survived" | "broken";
  by: string;
  seconds: number;
}

/** The number of tested and detected mutants, and the survivors. */
export interface Summary {
  mutants: number;
  caught: number;
  survived: string[];
  broken: string[];
}

/** Tests mutants one by one: those whose name or area contains one of these parts, or all. `say` gets each result. */
export async function tryEach(only: readonly string[] | undefined, trying: Trying, say: (result: Result) => void): Promise<Summary> {
  const chosen = MUTANTS.filter(({ name, area }) => !only || only.some((part) => area === part || name.includes(part)));
  const baselines = new Baselines(chosen, trying);
  const results: Result[] = [];
  for (const mutant of chosen) {
    const result = await resultOf(mutant, baselines, trying);
    results.push(result);
    say(result);
  }
  const named = (did: Result["did"]) => results.filter((one) => one.did === did).map(({ name }) => name);
  return { mutants: results.length, caught: named("killed").length, survived: named("survived"), broken: named("broken") };
}

/** The single faults run if the random programs found no problem. */
const killersOf = ({ killedBy }: Mutant): Killer[] => (killedBy === "random" ? ["random", "sweep"] : [killedBy]);

async function resultOf(mutant: Mutant, baselines: Baselines, trying: Trying): Promise<Result> {
  const { name, area } = mutant;
  const together = [mutant, ...MUTANTS.filter((one) => one.name === mutant.masked)];
  let seconds = 0;
  for (const killer of killersOf(mutant)) {
    const before = await baselines.of(killer);
    if (before.did !== "passed") return { name, area, did: "broken", by: `without it, ${killer} ${before.did}: ${before.by}`, seconds };
    const ended = await tryOut([killer], together, trying);
    seconds += ended.seconds;
    if (ended.did === "failed") return { name, area, did: "killed", by: ended.by, seconds };
    if (ended.did === "broken") return { name, area, did: "broken", by: ended.by, seconds };
  }
  return { name, area, did: "survived", by: killersOf(mutant).join(", "), seconds };
}

/** The results of runs without a mutant: a failure there is no evidence of a bug. */
class Baselines {
  readonly #chosen: readonly Mutant[];
  readonly #trying: Trying;
  readonly #known = new Map<Killer, Ended>();

  constructor(chosen: readonly Mutant[], trying: Trying) {
    this.#chosen = chosen;
    this.#trying = trying;
  }

  async of(killer: Killer): Promise<Ended> {
    const known = this.#known.get(killer) ?? (await this.#together(killer)) ?? (await tryOut([killer], [], this.#trying));
    this.#known.set(killer, known);
    return known;
  }

  /**
   * The named tests of a project in one run; undefined if one fails without a mutant, or if only this one remains: then each runs alone.
   */
  async #together(killer: Killer): Promise<Ended | undefined> {
    const isAlike = (one: Killer) => isFile(one) && projectOf(one) === projectOf(killer) && !this.#known.has(one);
    const alike = [...new Set(this.#chosen.flatMap(killersOf))].filter(isAlike);
    if (!isFile(killer) || alike.length < 2) return undefined;
    const ended = await tryOut(alike, [], this.#trying);
    if (ended.did !== "passed") return undefined;
    for (const one of alike) this.#known.set(one, ended);
    return ended;
  }
}
