import { existsSync } from "node:fs";
import { join } from "node:path";
import { besideOptions, type Call, Misuse, runCommand, type Usage } from "./command.ts";
import { ensureDevVars, servesPages } from "./local/dev-vars.ts";
import { Development } from "./local/development.ts";
import { closedFolder, type Engine } from "./local/engine-process.ts";
import { requireUnlocked } from "./local/folder-lock.ts";
import { requireGoodToken } from "./local/good-token.ts";
import { narrator } from "./local/narrator.ts";
import { portFrom, requireCallable } from "./local/ports.ts";
import { signInLink } from "./local/sign-in-link.ts";
import { authOption } from "./local/token.ts";
import { ROOT, requireInstalled, shown } from "./local/wrangler.ts";
import { wantsHelp } from "./options.ts";
import { column, paint, say, seconds } from "./terminal.ts";

const DEFAULT_PORT = 8787;
const FOLDER = join(ROOT, ".millrace");
const STATE = join(FOLDER, "state");
const TOKEN_FILE = join(FOLDER, "token");
const SECRETS = join(ROOT, ".dev.vars");
/** Where the page of the suggested command will be: ids follow from the work they stand for. A test holds this against the demo. */
const FIRST_PAGE = "/pages/acme/acme/cold-brew-54e259";
const VARS = { EMBEDDED_CONTROL: "true", MILLRACE_DEVELOPMENT: "true", LOG_GOOD_PER_SECOND: "1000" };

/** What stands beside the commands: its document, whose curls run here as they stand, and its demo if it has one. */
const SYSTEMS = [
  ["a brand's agent, and its audits", "docs/brand.md", "brand"],
  ["contacts in a CRM, both ways", "docs/crm.md", "crm"],
  ["approval, pages, index, feed", "docs/publishing.md", "publish"],
  ["articles by a model, and their cost", "docs/text.md"],
  ["commands that are due by the clock", "docs/schedules.md"],
  ["facts, ledgers, their projection", "docs/facts.md", "ledger"],
  ["charges, payouts, budgets, contacts", "docs/derived.md", "derived"],
  ["webhooks", "docs/webhooks.md", "webhooks"],
  ["import, export, reconcile files", "docs/batches.md", "batch"],
  ["lanes, limits, locks", "docs/lanes.md", "lanes"],
  ["steps in two modes, what each costs", "docs/authoring.md", "lean"],
  ["health, alerts, traces, cost", "docs/alerts.md", "observe"],
  ["what an operator does with a failure", "docs/operating.md", "operate"],
  ["the operators' page in a browser", "docs/console.md", "console"],
] as const;

const USAGE: Usage = {
  text: `Usage: npm start -- [--port ${DEFAULT_PORT}]. Runs everything on this machine until Ctrl-C; the state is kept in .millrace.`,
  values: ["--port"],
};

/** `npm start`: the engine on this machine, with all its state in `.millrace`. */
async function start({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [beside] = besideOptions(args, USAGE);
  if (beside !== undefined)
    throw new Misuse(`npm start takes no "${beside}". For a port of your choice: npm start -- --port ${Number(beside) || DEFAULT_PORT}`);
  requireInstalled();
  const port = portFrom(args, process.env.PORT, DEFAULT_PORT);
  await requireCallable(port);
  requireUnlocked(FOLDER);
  const again = existsSync(STATE);
  prepare();
  say(paint("dim", `Starting Millrace on port ${port}, ${again ? "on the state it was left in" : "with an empty database"} …`));

  let began = Date.now();
  const at = { url: `http://localhost:${port}`, tokenFile: TOKEN_FILE };
  const development = new Development({ folder: FOLDER, port, secrets: SECRETS, vars: VARS, signal: stop }, narrator(at, tell));
  let hasRun = false;
  try {
    for (;;) {
      const engine = await development.start();
      hasRun = true;
      await requireGoodToken(engine, TOKEN_FILE, stop);
      say(welcome(engine, await signInLink(engine.url, engine.token), Date.now() - began));
      if ((await development.run()) === "stopped") break;
      say(paint("yellow", `${shown(STATE)} is gone, and all that was kept in it: starting anew, with an empty database …`));
      began = Date.now();
      prepare();
    }
    say(paint("dim", "\nStopping …"));
    return 0;
  } finally {
    await development.stop();
    if (hasRun) say(paint("dim", `Stopped. The state is kept in ${shown(FOLDER)}: npm start goes on from it.`));
  }
}

/** What must be there before an engine is: its folder, and its secrets. */
function prepare(): void {
  closedFolder(FOLDER);
  if (ensureDevVars(SECRETS)) say(`Made ${shown(SECRETS)} with a new MILLRACE_KEY. Keep it: open instances depend on it.`);
}

function welcome({ url, logFile }: Engine, link: string, tookMs: number): string {
  const auth = authOption(TOKEN_FILE);
  const heading = (text: string) => paint("bold", text);
  const address = `${url}${FIRST_PAGE}  ${paint("dim", "when publish-article is complete")}`;
  const page = servesPages(SECRETS, join(ROOT, "wrangler.jsonc")) ? `${heading("Read it")}\n  ${address}\n\n` : "";
  return `
${paint("green", "●")} ${heading(`Millrace runs at ${url}`)} ${paint("dim", `(after ${seconds(tookMs)})`)}

${heading("Open the console")}
  ${link}
  ${paint("dim", "The link signs in one browser, within 10 minutes. Another: npm run token -- link")}

${heading("Ask for an article about a keyword")}
  curl ${url}/v1/commands \\
    ${auth} \\
    -H 'Content-Type: application/json' \\
    -d '{"type":"research.requested","correlation_id":"my-first-job","payload":{"brand":"acme","keyword":"cold brew"}}'

${heading("See what came of it")}
  npx millrace instances list --correlation my-first-job
  ${paint("dim", "One of them: npx millrace instances show latest. What else there is: npx millrace --help; all routes: /openapi.json")}

${page}${heading("What else it does")}
${SYSTEMS.map(([what, document, demo]) => `  ${column(what, 37)}${demo ? `${column(document, 20)}npm run demo -- ${demo}` : document}`).join("\n")}

${column("Logs of the Worker", 30)}${shown(logFile)}
${column("Stop", 30)}Ctrl-C; the state is kept in ${shown(FOLDER)}
`;
}

function tell(sentence: string): void {
  say(`${paint("dim", new Date().toTimeString().slice(0, 8))}  ${sentence}`);
}

await runCommand(start);
