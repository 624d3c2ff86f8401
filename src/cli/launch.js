// The door of every command. Plain JavaScript, so that a Node too old to read TypeScript says so in a sentence.
import * as module from "node:module";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { nodeRefusal } from "./node-version.js";

// What Node has compiled is kept, ours and wrangler's: the next start is a second sooner.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("../../node_modules/.cache/node", import.meta.url));
module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);

const COMMANDS = ["start", "demo", "token", "cost", "build"];

const HELP = `Commands:
  npm start -- --help      the engine on this machine, until Ctrl-C
  npm run demo -- --help   one system at work, on an engine of its own
  npm run token -- --help  tokens: make, list, revoke
  npm run cost -- --help   what workflows cost, here or deployed
  npm test -- --help       types, lint, dead code and all tests

And as long as you like, each with --help: npm run chaos, e2e:real, bench, bench:budgets`;

const [name = ""] = process.argv.splice(2, 1);
const refusal =
  nodeRefusal(process.versions.node) ??
  (COMMANDS.includes(name) ? undefined : `There is no command "${name}". Commands: ${COMMANDS.join(", ")}.`);

if (name === "--help") {
  console.log(HELP);
} else if (refusal === undefined) {
  await import(`./${name}.ts`);
} else {
  console.error(refusal);
  process.exitCode = COMMANDS.includes(name) ? 1 : 2;
}
