import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { apiOf } from "./api-client.ts";
import { type Call, Refusal, requireKnown, runCommand } from "./command.ts";
import { ensureDevVars } from "./local/dev-vars.ts";
import { type Engine, startEngine } from "./local/engine-process.ts";
import { portFrom } from "./local/ports.ts";
import { untilDeaf } from "./local/watchdog.ts";
import { followLog, humanLine } from "./local/worker-log.ts";
import { ROOT, requireInstalled, shown } from "./local/wrangler.ts";
import { column, paint, say, seconds } from "./terminal.ts";

const DEFAULT_PORT = 8787;
const FOLDER = join(ROOT, ".millrace");
const SECRETS = join(ROOT, ".dev.vars");
/** Where the page of the suggested command will be: ids follow from the work they stand for. A test holds this against the demo. */
const FIRST_PAGE = "/pages/acme/acme/cold-brew-54e259";
const VARS = { EMBEDDED_CONTROL: "true", KEEPER_NUDGES: "true" };

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
] as const;

/** `npm start`: the engine on this machine, with all its state in `.millrace`. */
async function start({ args, stop }: Call): Promise<number> {
  requireInstalled();
  requireKnown(args, ["--port"], `npm start -- [--port ${DEFAULT_PORT}]`);
  const port = portFrom(args, process.env.PORT, DEFAULT_PORT);
  const again = existsSync(join(FOLDER, "state"));
  mkdirSync(FOLDER, { recursive: true });
  if (ensureDevVars(SECRETS)) say(`Made ${shown(SECRETS)} with a new MILLRACE_KEY. Keep it: open instances depend on it.`);
  say(paint("dim", `Starting Millrace on port ${port}, ${again ? "on the state it was left in" : "with an empty database"} …`));

  const began = Date.now();
  const options = { folder: FOLDER, port, secrets: SECRETS, vars: VARS, watch: true, signal: stop };
  let engine = await startEngine(options);
  try {
    await requireGoodToken(engine);
    say(welcome(engine, Date.now() - began));
    while ((await follow(engine, stop)) === "deaf") {
      say(paint("yellow", "It has not answered for a while: starting it anew, on the state it has …"));
      await engine.stop();
      engine = await startEngine(options);
      say(`${paint("green", "●")} It runs again at ${engine.url}.`);
    }
    say(paint("dim", "\nStopping …"));
    return 0;
  } finally {
    await engine.stop();
    say(paint("dim", `Stopped. The state is kept in ${shown(FOLDER)}: npm start goes on from it.`));
  }
}

/** Tells what happens until people stop it, or until it is deaf. Errors: a `Refusal` when wrangler has ended. */
async function follow(engine: Engine, stop: AbortSignal): Promise<"stop" | "deaf"> {
  const unfollow = followLog(engine.logFile, tell);
  const over = new AbortController();
  const stopped = new Promise<"stop">((resolve) => stop.addEventListener("abort", () => resolve("stop"), { once: true }));
  const ended = engine.ended.then(() => "ended" as const);
  try {
    const why = stop.aborted ? "stop" : await Promise.race([stopped, ended, untilDeaf(engine, over.signal)]);
    if (why !== "ended") return why;
    throw new Refusal(`wrangler ended by itself. The last lines of ${shown(engine.logFile)} say why; the state is kept.`);
  } finally {
    over.abort();
    unfollow();
  }
}

async function requireGoodToken({ url, token }: Engine): Promise<void> {
  await apiOf(url, token)
    .instances("none")
    .catch((error: Error) => {
      throw new Refusal(`The token in ${shown(join(FOLDER, "token"))} does not work (${error.message}) Delete that file and start again.`);
    });
}

function welcome({ url, token, logFile }: Engine, tookMs: number): string {
  const auth = `-H 'Authorization: Bearer ${token}'`;
  const heading = (text: string) => paint("bold", text);
  return `
${paint("green", "●")} ${heading(`Millrace runs at ${url}`)} ${paint("dim", `(after ${seconds(tookMs)})`)}

${heading("Ask for an article about a keyword")}
  curl ${url}/v1/commands \\
    ${auth} \\
    -H 'Content-Type: application/json' \\
    -d '{"type":"research.requested","correlation_id":"my-first-job","payload":{"brand":"acme","keyword":"cold brew"}}'

${heading("See what came of it")}
  curl '${url}/v1/instances?correlation=my-first-job' \\
    ${auth}
  ${paint("dim", "One of them: /v1/instances/{id}, and its /steps, /effects and /events. All routes: /openapi.json")}

${heading("Read it")}
  ${url}${FIRST_PAGE}  ${paint("dim", "a second after you asked")}

${heading("What else it does")}
${SYSTEMS.map(([what, document, demo]) => `  ${column(what, 37)}${demo ? `${column(document, 20)}npm run demo -- ${demo}` : document}`).join("\n")}

${column("Logs of the Worker", 30)}${shown(logFile)}
${column("Stop", 30)}Ctrl-C; the state is kept in ${shown(FOLDER)}
`;
}

function tell(line: string): void {
  const human = humanLine(line);
  if (human) say(`${paint("dim", new Date().toTimeString().slice(0, 8))}  ${human}`);
}

await runCommand(start);
