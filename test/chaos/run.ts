import { parseArgs } from "node:util";
import { runChaos } from "./chaos.ts";

// Kills the engine while it works and counts what happened: node test/chaos/run.ts [--kills 20] [--commands 100] [--seed N] [--json]

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "20" },
    commands: { type: "string", default: "100" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    json: { type: "boolean", default: false },
  },
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

const [kills, commands, seed] = [whole("kills"), whole("commands"), whole("seed")];
console.log(`seed ${seed}`);
const { result, faults, folder } = await runChaos({ kills, commands, seed, say: (line) => console.log(line) });

for (const { kind, command, step, what } of faults) console.log(`${kind.toUpperCase()} ${command}${step && ` · ${step}`}: ${what}`);
if (faults.length > 0) {
  console.log(
    `The state is kept in ${folder}: engine.log, ledger.jsonl, state/. The same seed repeats the script, not the exact timing: --seed ${seed}`,
  );
} else {
  const bound = Math.round((3 / Math.max(1, result.effects)) * 10_000) / 100;
  console.log(
    `${result.effects} effects, 0 duplicates, 0 lost, ${result.parked} parked, healed in ${result.slowest_convergence_s} s. ` +
      `Zero failures in ${result.effects} effects bounds the rate at about 3/${result.effects} = ${bound} % (95 % confidence).`,
  );
}
if (values.json) console.log(JSON.stringify(result));
process.exit(faults.length > 0 ? 1 : 0);

function whole(name: "kills" | "commands" | "seed"): number {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value >= (name === "seed" ? 0 : 1)) return value;
  console.error(`--${name} must be a whole number of at least ${name === "seed" ? 0 : 1}; got "${values[name]}".`);
  process.exit(2);
}
