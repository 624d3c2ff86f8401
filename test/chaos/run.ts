import { misused, numberOption, readOptions } from "../../packages/millrace/cli/options.ts";
import { tryEach } from "../proof/mutants/each.ts";
import { STEPS_OF_ALL, stepsWanted } from "../proof/steps-of-all.ts";
import { runChaos } from "./chaos.ts";
import { FAULTS, type ProcessFault } from "./faults.ts";
import { runSoak } from "./soak.ts";

// Random programs on an engine with failing processes.

const USAGE = `Usage: npm run chaos -- [--minutes 2] [--kills 0] [--lanes 48] [--seed N] [--fault all] [--steps drawn] [--json]
       npm run chaos -- --soak [--messages 20000] [--json]
For so many minutes and at least so many kills, so many programs at a time. --fault is one of ${FAULTS.join(", ")}, none, all;
--steps how all guarded steps are taken, one of ${STEPS_OF_ALL.join(", ")}.
--mutants [--only PART …], once that is over: whether the proof finds the bugs that it must find, for an hour more. --json prints one object last.`;
const { values } = readOptions(USAGE, {
  options: {
    minutes: { type: "string", default: "2" },
    kills: { type: "string", default: "0" },
    lanes: { type: "string", default: "48" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    fault: { type: "string", default: "all" },
    steps: { type: "string", default: "drawn" },
    soak: { type: "boolean", default: false },
    messages: { type: "string", default: "20000" },
    mutants: { type: "boolean", default: false },
    only: { type: "string", multiple: true },
    json: { type: "boolean", default: false },
  },
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

const [minutes, lanes, seed, wanted] = [number("minutes"), number("lanes"), number("seed"), number("kills")];
const faults = faultsOf(values.fault);
const steps = stepsWanted(values.steps);
if (values.soak) await soak();
console.log(`seed ${seed}`);
const until = Date.now() + minutes * 60_000;
const goesOn = ({ kills }: { kills: number }) => Date.now() < until || kills < wanted;
const { result, problems, missed, kept } = await runChaos({ seed, faults, lanes, steps, goesOn, say: (line) => console.log(line) });

for (const problem of problems) console.log(problem);
if (problems.length > 0)
  console.log(`The evidence is stored in ${kept}. The same seed creates the same programs and faults, but not at the same moments.`);
if (missed.length > 0) console.log(`This run does not count: these planned faults did not happen: ${missed.join(", ")}.`);
if (problems.length === 0) {
  const { programs, effects, kills } = result;
  const bound = Math.round((3 / Math.max(1, effects)) * 1e6) / 1e4;
  console.log(
    `${programs} programs, ${kills} kills, ${effects} effects: every guarantee held. ` +
      `Zero failures in ${effects} effects bounds the rate at about 3/${effects} = ${bound} % (95 % confidence).`,
  );
}
const uncaught = values.mutants ? await mutants() : 0;
if (values.json) console.log(JSON.stringify(result));
process.exit(problems.length + missed.length + uncaught > 0 ? 1 : 0);

/**
 * Applies bugs to the engine and checks that the tests find them. Returns the number of undetected bugs; a run without bugs counts as one.
 */
async function mutants(): Promise<number> {
  const tried = await tryEach(values.only, { seconds: 60, seed: 1001 }, ({ area, name, did, by, seconds }) =>
    console.log(`${area} | ${name} | ${did} | ${by} | ${seconds} s`),
  );
  result.mutants = tried.mutants;
  result.mutants_caught = tried.caught;
  console.log(`${tried.caught} of ${tried.mutants} mutants were detected.`);
  return tried.mutants === 0 ? 1 : tried.mutants - tried.caught;
}

/** Sends 20,000 messages without faults: the engine must not become larger or slower. */
async function soak(): Promise<never> {
  const told = await runSoak(number("messages"), (line) => console.log(line));
  const isFine = told.backlog === 0 && told.complete === told.messages && told.ratio_p50 <= 2 && told.ratio_p99 <= 2;
  const { seconds, backlog, rss_slope_mb_per_1000: slope, ratio_p50, ratio_p99 } = told;
  console.log(`${told.complete} of ${told.messages} in ${seconds} s, backlog ${backlog}; ${slope} MB more with each 1,000;`);
  console.log(
    `the last tenth took ${ratio_p50} times as long as the first (p50), ${ratio_p99} times (p99): ${isFine ? "fine" : "NOT fine"}.`,
  );
  if (values.json) console.log(JSON.stringify(told));
  process.exit(isFine ? 0 : 1);
}

function number(name: "messages" | "minutes" | "lanes" | "seed" | "kills"): number {
  return numberOption(USAGE, name, values[name], { whole: false });
}

function faultsOf(word: string): readonly ProcessFault[] {
  if (word === "none") return [];
  if (word === "all") return FAULTS;
  return FAULTS.some((one) => one === word)
    ? [word as ProcessFault]
    : misused(`--fault is one of ${FAULTS.join(", ")}, none, all; got "${word}".`, USAGE);
}
