import { parseArgs } from "node:util";
import { MUTANTS } from "./all.ts";
import type { Killer, Mutant } from "./mutant.ts";
import { type Ended, type Trying, tryOut } from "./try.ts";

/**
 * `node test/proof/mutants/run.ts`: puts one bug after another into the engine and looks what finds it. `--only PART` those whose name or area holds
 * this; `--seconds N` for how long random programs are drawn, `--seed S` which; `--json` one line of JSON for each. Ends with what was caught
 * and what survived, as JSON.
 */
const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1000" },
    json: { type: "boolean", default: false },
  },
});
const trying: Trying = { seconds: Number(values.seconds), seed: Number(values.seed) };

/** What became of a mutant: killed by a seed or a test; survived; or it proves nothing, because it broke the run itself. */
interface Result {
  name: string;
  area: string;
  did: "killed" | "survived" | "broken";
  by: string;
  seconds: number;
}

/** How a run ends without any mutant: what fails by itself says nothing of a bug. */
const baselines = new Map<Killer, Promise<Ended>>();

function baselineOf(killer: Killer): Promise<Ended> {
  const known = baselines.get(killer) ?? tryOut(killer, [], trying);
  baselines.set(killer, known);
  return known;
}

/** The single faults look where the random programs found nothing. */
const killersOf = ({ killedBy }: Mutant): Killer[] => (killedBy === "random" ? ["random", "sweep"] : [killedBy]);

async function resultOf(mutant: Mutant): Promise<Result> {
  const { name, area } = mutant;
  const together = [mutant, ...MUTANTS.filter((one) => one.name === mutant.masked)];
  let seconds = 0;
  for (const killer of killersOf(mutant)) {
    const before = await baselineOf(killer);
    if (before.did !== "passed") return { name, area, did: "broken", by: `without it, ${killer} ${before.did}: ${before.by}`, seconds };
    const ended = await tryOut(killer, together, trying);
    seconds += ended.seconds;
    if (ended.did === "failed") return { name, area, did: "killed", by: ended.by, seconds };
    if (ended.did === "broken") return { name, area, did: "broken", by: ended.by, seconds };
  }
  return { name, area, did: "survived", by: killersOf(mutant).join(", "), seconds };
}

const { only } = values;
const chosen = MUTANTS.filter(({ name, area }) => !only || only.some((part) => area === part || name.includes(part)));
const results: Result[] = [];
for (const mutant of chosen) {
  const result = await resultOf(mutant);
  results.push(result);
  const { name, area, did, by, seconds } = result;
  console.log(values.json ? JSON.stringify(result) : `${area} | ${name} | ${did} | ${by} | ${seconds} s`);
}
const named = (did: Result["did"]) => results.filter((one) => one.did === did).map(({ name }) => name);
console.log(
  JSON.stringify({ mutants: results.length, caught: named("killed").length, survived: named("survived"), broken: named("broken") }),
);
process.exitCode = results.length > 0 && named("killed").length === results.length ? 0 : 1;
