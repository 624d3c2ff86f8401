import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { askerOf } from "./api-client.ts";
import { besideOptions, type Call, Misuse, optionIn, runCommand, type Usage } from "./command.ts";
import { exampleOf } from "./example.ts";
import { ensureDevVars } from "./local/dev-vars.ts";
import { Development } from "./local/development.ts";
import { closedFolder, type Engine } from "./local/engine-process.ts";
import { requireUnlocked } from "./local/folder-lock.ts";
import { narrator } from "./local/narrator.ts";
import { portFrom, requireCallable } from "./local/ports.ts";
import { authOption, requireGoodToken, signInLink } from "./local/token.ts";
import { requireWrangler, shown, untriedWords, wranglerVersion } from "./local/wrangler.ts";
import { wantsHelp } from "./options.ts";
import { findProject, type Project } from "./project.ts";
import { column, oneLine, paint, say, seconds } from "./terminal.ts";
import { TENANT } from "./token/request.ts";

const DEFAULT_PORT = 8787;
const VARS = { MILLRACE_DEVELOPMENT: "true" };

const USAGE: Usage = {
  text: `Usage: npx millrace dev [--port ${DEFAULT_PORT}] [--tenant NAME] [--config FILE] [--env NAME]. Runs the Worker of this folder on this machine until Ctrl-C. The state is kept in .millrace, with the tenant of the token.`,
  values: ["--port", "--tenant", "--config", "--env"],
};

/** The entry `millrace.dev` of a project's package.json. */
interface Settings {
  /** Variables of the local engine, in addition to the variables of the configuration. */
  vars?: Record<string, string>;
  /** The command message that the printed `curl` call sends. Default: the first command message of the catalog. */
  command?: Command;
  /** Lines that `dev` prints below the `curl` call. `{url}` becomes the address of the engine. */
  welcome?: string[];
}

interface Command {
  type: string;
  payload: unknown;
}

async function dev({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [beside] = besideOptions(args, USAGE);
  if (beside !== undefined)
    throw new Misuse(`dev has no "${beside}". To choose a port: npx millrace dev --port ${Number(beside) || DEFAULT_PORT}`);
  const project = findProject({ config: optionIn(args, "--config"), env: optionIn(args, "--env") });
  requireWrangler(project);
  const { stateFolder: folder, secrets, wrangler } = project;
  const settings = settingsOf(project);
  const tenant = optionIn(args, "--tenant");
  if (tenant !== undefined && !TENANT.test(tenant))
    throw new Misuse(`"${tenant}" is no tenant. --tenant takes up to 64 lower case letters, digits, - or _.`);
  const [tokenFile, state] = [join(folder, "token"), join(folder, "state")];
  const port = portFrom(args, process.env.PORT, DEFAULT_PORT);
  await requireCallable(port);
  requireUnlocked(folder);
  prepare(project);
  const with_ = existsSync(state) ? "the state of the last run" : "an empty database";
  say(paint("dim", `Starting ${project.name} on port ${port}, with ${with_} …`));
  const untried = untriedWords(wranglerVersion(wrangler));
  if (untried !== undefined) say(paint("yellow", `${untried} The engine starts more slowly with it.`));

  let began = Date.now();
  const at: { url: string; tokenFile: string; tenant?: string } = { url: `http://localhost:${port}`, tokenFile };
  const options = { project: { ...project, wrangler }, folder, port, secrets, tenant, vars: { ...VARS, ...settings.vars }, signal: stop };
  const development = new Development(options, narrator(at, tell));
  let hasRun = false;
  try {
    for (;;) {
      const engine = await development.start();
      hasRun = true;
      await requireGoodToken(engine, tokenFile, stop);
      at.tenant = (await askerOf(engine.url, engine.token)<{ tenant: string }>("GET", "/v1/caller")).tenant;
      const link = await signInLink(engine.url, engine.token);
      const command = settings.command ?? (await firstCommand(engine));
      say(welcome({ engine, tokenFile, tenant: at.tenant, folder, link, command, settings, tookMs: Date.now() - began }));
      if ((await development.run()) === "stopped") break;
      say(paint("yellow", `${shown(state)} was removed, with all data: starting again, with an empty database …`));
      began = Date.now();
      prepare(project);
    }
    say(paint("dim", "\nStopping …"));
    return 0;
  } finally {
    await development.stop();
    if (hasRun) say(paint("dim", `Stopped. The state is kept in ${shown(folder)}: the next start uses it.`));
  }
}

function prepare({ stateFolder, secrets }: Project): void {
  closedFolder(stateFolder);
  if (ensureDevVars(secrets)) say(`Made ${shown(secrets)} with a new MILLRACE_KEY. Keep it: open instances depend on it.`);
}

function settingsOf({ root }: Project): Settings {
  const file = join(root, "package.json");
  if (!existsSync(file)) return {};
  const { millrace = {} } = JSON.parse(readFileSync(file, "utf8")) as { millrace?: { dev?: Settings } };
  return millrace.dev ?? {};
}

interface Catalog {
  messages: { kind: string; type: string; access: { route: string } | null; payload_schema: object }[];
}

/** The first command message that the route for commands accepts, with an example of its payload. */
async function firstCommand({ url, token }: Engine): Promise<Command | undefined> {
  const { messages } = await askerOf(url, token)<Catalog>("GET", "/v1/catalog");
  const [first] = messages.filter(({ kind, access }) => kind === "command" && access?.route === "POST /v1/commands");
  return first && { type: first.type, payload: exampleOf(first.payload_schema) };
}

interface Welcome {
  engine: Engine;
  tokenFile: string;
  tenant: string;
  folder: string;
  link: string;
  command: Command | undefined;
  settings: Settings;
  tookMs: number;
}

function welcome({ engine: { url, logFile }, tokenFile, tenant, folder, link, command, settings, tookMs }: Welcome): string {
  const heading = (text: string) => paint("bold", text);
  const body = command && JSON.stringify({ ...command, correlation_id: "my-first-job" }).replaceAll("'", "'\\''");
  const ask = `${heading("Send a command")}
  curl ${url}/v1/commands \\
    ${authOption(tokenFile)} \\
    -H 'Content-Type: application/json' \\
    -d '${oneLine(body ?? "")}'

${heading("See its run")}
  npx millrace instances list --correlation my-first-job
  ${paint("dim", "One run: npx millrace instances show latest. More commands: npx millrace --help; all routes: /openapi.json")}
`;
  const none = `${heading("No command yet")}\n  List a workflow in millrace({ workflows: […] }): save, then send its command with npx millrace enqueue NAME --payload '{…}'.\n`;
  const more = (settings.welcome ?? []).map((line) => `${line.replaceAll("{url}", url)}\n`).join("");
  return `
${paint("green", "●")} ${heading(`Millrace runs at ${url}`)} ${paint("dim", `(after ${seconds(tookMs)})`)}

${heading("Open the console")}
  ${link}
  ${paint("dim", "The link signs in one browser, within 10 minutes. Another: npx millrace token link")}

${command ? ask : none}
${more === "" ? "" : `${more}\n`}${column("Tenant of the token", 30)}${tenant}; another: npx millrace dev --tenant NAME
${column("Logs of the Worker", 30)}${shown(logFile)}
${column("Stop", 30)}Ctrl-C; the state is kept in ${shown(folder)}
`;
}

function tell(sentence: string): void {
  say(`${paint("dim", new Date().toTimeString().slice(0, 8))}  ${sentence}`);
}

await runCommand(dev);
