#!/usr/bin/env node
// The door of every command. Plain JavaScript, so that a Node too old to read TypeScript says so in a sentence.
import * as module from "node:module";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { nodeRefusal } from "./node-version.js";

// What Node has compiled is kept, ours and wrangler's: the next start is a second sooner.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("../../node_modules/.cache/node", import.meta.url));
module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);

const COMMANDS = ["start", "demo", "token", "cost", "build"];
/** What operate.ts is asked about. */
const NOUNS = ["enqueue", "instances", "effects", "approvals", "dead-letters", "queues", "search"];

const HELP = `Commands:
  npm start -- --help      the engine on this machine, until Ctrl-C
  npm run demo -- --help   one system at work, on an engine of its own
  npm run token -- --help  tokens: make, list, revoke
  npm run cost -- --help   what workflows cost, here or deployed
  npm test -- --help       types, lint, dead code and all tests

What runs, here or deployed, is operated by
  npx millrace enqueue --help        ask for work, and wait for it
  npx millrace instances --help      list, show, tail, retry, cancel, undo, pause, resume, restart, skip, close
  npx millrace effects --help        what is in doubt: confirm, reject, retry
  npx millrace approvals --help      questions to people: approve, reject
  npx millrace dead-letters --help   list, show, replay, skip, escalate
  npx millrace queues --help         how every queue does
  npx millrace search --help         anything by an id, a key or a subject

And as long as you like, each with --help: npm run chaos, e2e:real, bench, bench:budgets`;

const [name = "--help"] = process.argv.slice(2);
const isKnown = [...COMMANDS, ...NOUNS].includes(name);
const isHelp = name === "--help" || name === "-h";
const refusal = nodeRefusal(process.versions.node) ?? (isKnown || isHelp ? undefined : await unknown(name));

if (refusal !== undefined) {
  console.error(refusal);
  process.exitCode = isKnown ? 1 : 2;
} else if (NOUNS.includes(name)) {
  await import("./operate.ts");
} else if (COMMANDS.includes(name)) {
  process.argv.splice(2, 1);
  await import(`./${name}.ts`);
} else {
  console.log(HELP);
}

/** @param {string} name */
async function unknown(name) {
  const { nearest } = await import("../src/contract/nearest.ts");
  const all = [...COMMANDS, ...NOUNS];
  const guess = nearest(name, all);
  return `There is no command "${name}". Commands: ${all.join(", ")}.${guess === undefined ? "" : ` Did you mean ${guess}?`}`;
}
