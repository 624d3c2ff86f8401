import { parseArgs } from "node:util";
import { askerOf, type Costs } from "./api-client.ts";
import { askedEngine, LOCAL, orNotReached } from "./asked-engine.ts";
import { type Call, Misuse, runCommand } from "./command.ts";
import { costTable } from "./cost/table.ts";
import { wantsHelp, whatIsWrong } from "./options.ts";
import { say } from "./terminal.ts";

const USAGE =
  `Usage: npx millrace cost [--url ${LOCAL}] [--runs <a month>] [--json]. Prints the cost of each workflow on a running engine, ` +
  "from its newest runs and its rate of the last day; with --runs, for that many runs a month. For a remote engine, " +
  "MILLRACE_TOKEN must be a token with the scope observe.";

async function cost({ args }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE);
    return 0;
  }
  const { url, runs, json } = optionsOf(args);
  const engine = askedEngine(url);
  const ask = askerOf(engine.url, engine.token);
  const costs = await ask<Costs>("GET", "/v1/costs").catch((error: unknown) => {
    throw orNotReached(engine, error);
  });
  say(json ? JSON.stringify(costs) : costTable(costs, runs));
  return 0;
}

function optionsOf(args: string[]): { url: string | undefined; runs: number | undefined; json: boolean } {
  const { url, runs, json } = parsed(args);
  if (runs !== undefined && !/^[1-9]\d{0,14}$/.test(runs))
    throw new Misuse(`--runs must be a whole number from 1; got "${runs}". ${USAGE}`);
  return { url, runs: runs === undefined ? undefined : Number(runs), json };
}

function parsed(args: string[]) {
  const options = {
    url: { type: "string" },
    runs: { type: "string" },
    json: { type: "boolean", default: false },
  } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new Misuse(`${whatIsWrong(error)} ${USAGE}`);
  }
}

await runCommand(cost);
