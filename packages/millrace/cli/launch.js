#!/usr/bin/env node
// The entry point of every command. It is plain JavaScript, so that a Node that cannot run TypeScript prints an error.
import { existsSync, readFileSync } from "node:fs";
import * as module from "node:module";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { COMMANDS, nounLines } from "./names.js";
import { nodeRefusal } from "./node-version.js";

// The folder of the package: above `cli` in the repository, above `dist/cli` if installed.
const ABOVE = fileURLToPath(new URL("..", import.meta.url));
const PACKAGE = existsSync(join(ABOVE, "package.json")) ? ABOVE : join(ABOVE, "..");
// Node caches the compiled code of the command and of wrangler, which saves about one second at each start.
const packages = PACKAGE === ABOVE ? join(PACKAGE, "../../node_modules") : join(PACKAGE, "..");
process.env.NODE_COMPILE_CACHE ??= join(packages, ".cache/node");
module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);

/** @param {Record<string, string>} lines */
const listed = (lines) => Object.entries(lines).map(([one, does]) => `  ${one.padEnd(16)}  ${does}`);

const help = () => [
  "Usage: npx millrace COMMAND. Each command has --help.\n\nIn the folder of a Worker:",
  ...listed(COMMANDS),
  "\nOperate a local or deployed engine, with --url and --token:",
  ...listed(nounLines()),
  "\n  --version         show the version",
];

const [name = "--help"] = process.argv.slice(2);
const isVersion = name === "--version" || name === "-v";
const isHelp = name === "--help" || name === "-h";
const refusal =
  nodeRefusal(process.versions.node) ?? (name.startsWith("-") && !isVersion && !isHelp ? `There is no option "${name}".` : undefined);

if (refusal !== undefined) {
  console.error(refusal);
  process.exitCode = name.startsWith("-") ? 2 : 1;
} else if (isVersion) {
  console.log(versionOf(PACKAGE));
} else if (isHelp) {
  console.log(help().join("\n"));
} else if ((Object.hasOwn(COMMANDS, name) && name !== "completion") || (name === "build" && PACKAGE === ABOVE)) {
  process.argv.splice(2, 1);
  await import(`./${name}.ts`);
} else {
  await import("./operate.ts");
}

/** @param {string} folder */
function versionOf(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version;
}
