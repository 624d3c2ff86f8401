import { parseArgs } from "node:util";
import { runChaos } from "./chaos.ts";
import { FAULTS, type ProcessFault } from "./faults.ts";

// Random programs on an engine whose processes fail: node test/chaos/run.ts [--minutes 2] [--seed N] [--fault all] [--lanes 48] [--json]

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "2" },
    kills: { type: "string", default: "0" },
    lanes: { type: "string", default: "48" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    fault: { type: "string", default: "all" },
    json: { type: "boolean", default: false },
  },
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

const [minutes, lanes, seed, wanted] = [number("minutes"), number("lanes"), number("seed"), number("kills")];
const faults = faultsOf(values.fault);
console.log(`seed ${seed}`);
const until = Date.now() + minutes * 60_000;
const goesOn = ({ kills }: { kills: number }) => Date.now() < until || kills < wanted;
const { result, problems, missed, kept } = await runChaos({ seed, faults, lanes, goesOn, say: (line) => console.log(line) });

for (const problem of problems) console.log(problem);
if (problems.length > 0)
  console.log(`The evidence is kept in ${kept}. The same seed draws the same programs and faults, not the same moments.`);
if (missed.length > 0) console.log(`This run does not count: of its faults ${missed.join(", ")} did not happen.`);
if (problems.length === 0) {
  const { programs, effects, kills } = result;
  const bound = Math.round((3 / Math.max(1, effects)) * 1e6) / 1e4;
  console.log(
    `${programs} programs, ${kills} kills, ${effects} effects: each promise kept. ` +
      `Zero failures in ${effects} effects bounds the rate at about 3/${effects} = ${bound} % (95 % confidence).`,
  );
}
if (values.json) console.log(JSON.stringify(result));
process.exit(problems.length + missed.length > 0 ? 1 : 0);

function number(name: "minutes" | "lanes" | "seed" | "kills"): number {
  const value = Number(values[name]);
  if (values[name] !== "" && Number.isFinite(value) && value >= 0) return value;
  return refuse(`--${name} must be a number of at least 0; got "${values[name]}".`);
}

function faultsOf(word: string): readonly ProcessFault[] {
  if (word === "none") return [];
  if (word === "all") return FAULTS;
  return FAULTS.some((one) => one === word)
    ? [word as ProcessFault]
    : refuse(`--fault is one of ${FAULTS.join(", ")}, none, all; got "${word}".`);
}

function refuse(why: string): never {
  console.error(why);
  process.exit(2);
}
