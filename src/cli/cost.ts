import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ApiRefusal, askerOf, type Costs } from "./api-client.ts";
import { type Call, Misuse, Refusal, runCommand } from "./command.ts";
import { costTable } from "./cost/table.ts";
import { ROOT } from "./local/wrangler.ts";
import { wantsHelp, whatIsWrong } from "./options.ts";
import { say } from "./terminal.ts";

const TOKEN_FILE = join(ROOT, ".millrace", "token");
const LOCAL = "http://localhost:8787";

const USAGE =
  `Usage: npm run cost -- [--url ${LOCAL}] [--runs <a month>] [--json]. What each workflow costs on the engine at that address, ` +
  "by its newest runs and its rate of the last day; with --runs as if each ran so often a month. Elsewhere than on this machine " +
  "the token is read from MILLRACE_TOKEN: it needs the scope observe.";

/** `npm run cost`: what workflows cost, on the engine of this machine or a deployed one. */
async function cost({ args }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE);
    return 0;
  }
  const { url, runs, json } = optionsOf(args);
  const ask = askerOf(url.replace(/\/$/, ""), tokenFor(url));
  const costs = await ask<Costs>("GET", "/v1/costs").catch((error: unknown) => {
    if (!(error instanceof ApiRefusal) || error.status !== undefined) throw error;
    throw new Refusal(`${error.message} Start one with npm start, or say where it is: npm run cost -- --url http://localhost:<port>.`);
  });
  say(json ? JSON.stringify(costs) : costTable(costs, runs));
  return 0;
}

function optionsOf(args: string[]): { url: string; runs: number | undefined; json: boolean } {
  const { url, runs, json } = parsed(args);
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) throw new Misuse(`--url must be an address; got "${url}". ${USAGE}`);
  if (runs !== undefined && !/^[1-9]\d{0,14}$/.test(runs))
    throw new Misuse(`--runs must be a whole number from 1; got "${runs}". ${USAGE}`);
  return { url, runs: runs === undefined ? undefined : Number(runs), json };
}

function parsed(args: string[]) {
  const options = {
    url: { type: "string", default: LOCAL },
    runs: { type: "string" },
    json: { type: "boolean", default: false },
  } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new Misuse(`${whatIsWrong(error)} ${USAGE}`);
  }
}

/** The token of this checkout goes to this machine and nowhere else. */
function tokenFor(url: string): string {
  const given = process.env.MILLRACE_TOKEN?.trim();
  if (given) return given;
  const { hostname } = new URL(url);
  if (!["localhost", "127.0.0.1", "[::1]"].includes(hostname)) {
    throw new Refusal(`Set MILLRACE_TOKEN to a token of ${hostname} that has the scope observe.`);
  }
  if (!existsSync(TOKEN_FILE))
    throw new Refusal("There is no local engine yet: npm start makes one. For another one: --url, with MILLRACE_TOKEN.");
  return readFileSync(TOKEN_FILE, "utf8").trim();
}

await runCommand(cost);
