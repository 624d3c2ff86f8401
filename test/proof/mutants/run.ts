import { parseArgs } from "node:util";
import { tryEach } from "./each.ts";

/**
 * `node test/proof/mutants/run.ts`: puts one bug after another into the engine and looks what finds it. `--only PART` those whose name or
 * area holds this; `--seconds N` for how long random programs are drawn, `--seed S` which; `--json` one line of JSON for each. Ends with
 * what was caught and what survived, as JSON.
 */
const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1000" },
    json: { type: "boolean", default: false },
  },
});

// What was started ends with it.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(130));

const summary = await tryEach(values.only, { seconds: Number(values.seconds), seed: Number(values.seed) }, (result) => {
  const { name, area, did, by, seconds } = result;
  console.log(values.json ? JSON.stringify(result) : `${area} | ${name} | ${did} | ${by} | ${seconds} s`);
});
console.log(JSON.stringify(summary));
process.exitCode = summary.mutants > 0 && summary.caught === summary.mutants ? 0 : 1;
