import { parseArgs } from "node:util";
import { tryEach } from "./each.ts";

/**
 * `node test/proof/mutants/run.ts` applies bugs to the engine one by one and checks which test detects each. `--only PART` selects those
 * whose name or area contains this; `--seconds N` sets the duration of random programs, `--seed S` their seed; `--json` prints one line of
 * JSON per bug. The last line has the detected and the surviving bugs, as JSON.
 */
const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1001" },
    json: { type: "boolean", default: false },
  },
});

// Started processes end with this one.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(130));

const summary = await tryEach(values.only, { seconds: Number(values.seconds), seed: Number(values.seed) }, (result) => {
  const { name, area, did, by, seconds } = result;
  console.log(values.json ? JSON.stringify(result) : `${area} | ${name} | ${did} | ${by} | ${seconds} s`);
});
console.log(JSON.stringify(summary));
process.exitCode = summary.mutants > 0 && summary.caught === summary.mutants ? 0 : 1;
