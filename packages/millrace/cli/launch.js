#!/usr/bin/env node
// The entry point of every command. It is plain JavaScript, so that a Node that cannot run TypeScript prints an error.
import { existsSync, readFileSync } from "node:fs";
import * as module from "node:module";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { nodeRefusal } from "./node-version.js";

// The folder of the package: above `cli` in the repository, above `dist/cli` if installed.
const ABOVE = fileURLToPath(new URL("..", import.meta.url));
const PACKAGE = existsSync(join(ABOVE, "package.json")) ? ABOVE : join(ABOVE, "..");
// Node caches the compiled code of the command and of wrangler, which saves about one second at each start.
const packages = PACKAGE === ABOVE ? join(PACKAGE, "../../node_modules") : join(PACKAGE, "..");
process.env.NODE_COMPILE_CACHE ??= join(packages, ".cache/node");
module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);

const COMMANDS = ["init", "dev", "migrate", "doctor", "deploy", "token", "cost", ...(PACKAGE === ABOVE ? ["build"] : [])];
/** The nouns of operate.ts. */
const NOUNS = ["enqueue", "instances", "effects", "approvals", "dead-letters", "queues", "search"];

const HELP = `Usage: npx millrace COMMAND. Each command has --help.

In the folder of a Worker:
  init          add the engine to a Worker, or make a new Worker
  dev           run the Worker on this machine: database, console, checks at each save
  migrate       apply the migrations, here or with --remote
  doctor        check bindings, migrations, secrets, queues and limits, here or with --remote
  deploy        provision, migrate and deploy the Worker
  token         make, list and revoke tokens; link signs a browser in to the console
  cost          show the cost of each workflow

Operate a local or deployed engine:
  enqueue       send a command, and wait for its run
  instances     list, show, tail, retry, cancel, undo, pause, resume, restart, skip, close
  effects       unknown outcomes: list, confirm, reject, retry
  approvals     questions to operators: list, approve, reject
  dead-letters  list, show, replay, skip, escalate
  queues        show the backlog, rates and failures of each queue
  search        find by an id, a key or a subject

  --version     show the version`;

const [name = "--help"] = process.argv.slice(2);
const isKnown = [...COMMANDS, ...NOUNS].includes(name);
const isVersion = name === "--version" || name === "-v";
const isHelp = name === "--help" || name === "-h";
const refusal = nodeRefusal(process.versions.node) ?? (isKnown || isHelp || isVersion ? undefined : await unknown(name));

if (refusal !== undefined) {
  console.error(refusal);
  process.exitCode = isKnown ? 1 : 2;
} else if (NOUNS.includes(name)) {
  await import("./operate.ts");
} else if (COMMANDS.includes(name)) {
  process.argv.splice(2, 1);
  await import(`./${name}.ts`);
} else if (isVersion) {
  console.log(versionOf(PACKAGE));
} else {
  console.log(HELP);
}

/** @param {string} folder */
function versionOf(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version;
}

/** @param {string} name */
async function unknown(name) {
  const { nearest } = await import("../src/contract/nearest.ts");
  const all = [...COMMANDS.filter((one) => one !== "build"), ...NOUNS];
  const guess = nearest(name, all);
  return `There is no command "${name}". Commands: ${all.join(", ")}.${guess === undefined ? "" : ` Did you mean ${guess}?`}`;
}
