import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { Refusal } from "../command.ts";
import { oneLine } from "../terminal.ts";

/** The folder of this checkout. */
export const ROOT = join(import.meta.dirname, "../../../..");
export const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");

export function requireInstalled(): void {
  if (!existsSync(WRANGLER)) throw new Refusal("The packages are not installed. Run `npm install` once, then this again.");
}

/**
 * Wrangler by itself: it asks nobody, reports nothing, opens no second door, and shares no registry with another wrangler of this machine.
 */
export function wranglerEnv(folder: string): NodeJS.ProcessEnv {
  const settings = {
    CI: "1",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
    FORCE_COLOR: "0",
    WRANGLER_HIDE_BANNER: "true",
    WRANGLER_LOG_PATH: join(folder, "wrangler-logs"),
    WRANGLER_REGISTRY_PATH: join(folder, "registry"),
    WRANGLER_SEND_METRICS: "false",
    // It would serve the whole database on the public port, to everybody on this machine, without a token.
    X_LOCAL_EXPLORER: "false",
    // It would keep a trace of every request and statement, which nobody could look at without the explorer.
    X_LOCAL_OBSERVABILITY: "false",
  };
  return { ...process.env, ...settings };
}

/** Runs a command of a project's wrangler, and returns its output. Errors: a sentence that ends with wrangler's own. */
export function runWrangler(
  of: { root: string; wrangler: string },
  folder: string,
  doing: string,
  args: readonly string[],
): Promise<string> {
  return runNode(folder, doing, [of.wrangler, ...args], of.root);
}

/** As `runWrangler`, with a file of our own that loads wrangler. */
export function runNode(folder: string, doing: string, args: readonly string[], cwd = ROOT): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [...args], { cwd, env: wranglerEnv(folder) }, (error, stdout, stderr) => {
      if (error) reject(new Refusal(`Could not ${doing}: ${lastError(`${stdout}\n${stderr}`)}`));
      else resolve(stdout);
    });
  });
}

/**
 * What the Worker threw as it was loaded, or else the last thing that wrangler called an error, with `--json` too, or its last words.
 */
export function lastError(output: string): string {
  return errorIn(output) ?? jsonErrorIn(output) ?? linesOf(output).at(-1) ?? "wrangler said nothing";
}

/** The text of the error with which a command that was asked for JSON answers: `{ "error": { "text": "…" } }`. */
function jsonErrorIn(output: string): string | undefined {
  const [, text] = /^\s*\{\s*"error":\s*\{\s*"text":\s*("(?:[^"\\]|\\.)*")/m.exec(output) ?? [];
  return text && oneLine(JSON.parse(text));
}

/**
 * What the Worker threw as it was loaded, or else the last line that is an error: wrangler's, or a program's that died. Undefined for none.
 */
export function errorIn(output: string): string | undefined {
  const lines = linesOf(output);
  const errors = lines.map(errorOf).filter((error) => error !== undefined);
  const thrown = errors.findLast((error) => LOADING.test(error));
  const error = thrown ?? errors.at(-1) ?? lines.findLast((line) => /^(?:Uncaught )?\w*Error(?: \[\w+\])?: /.test(line));
  return error?.replace(LOADING, "");
}

/**
 * What wrangler calls an error, without its mark; undefined for other lines, also for those of requests that have the mark in their path.
 */
export function errorOf(line: string): string | undefined {
  return /^\S \[ERROR\]\s*(.*)$/.exec(oneLine(line))?.[1];
}

function linesOf(output: string): string[] {
  return output
    .split("\n")
    .map(oneLine)
    .filter((line) => line !== "" && !line.startsWith("🪵"));
}

/** True for a line of the log in which the runtime says what the Worker threw as it was loaded. */
export function isLoadingError(line: string): boolean {
  return LOADING.test(errorOf(line) ?? "");
}

/** What a Worker's own code threw before it could serve anything: wrangler lists behind it what is missing because of that. */
const LOADING = /^service core:user:\S+ Uncaught (?:Error: )?(?:\w+Error: )?/;

/** A path as people of this checkout write it. */
export function shown(path: string): string {
  return relative(process.cwd(), path) || ".";
}
