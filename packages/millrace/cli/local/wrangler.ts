import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { Refusal } from "../command.ts";
import { oneLine } from "../terminal.ts";

export const ROOT = join(import.meta.dirname, "../../../..");
export const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");

export function requireInstalled(): void {
  if (!existsSync(WRANGLER)) throw new Refusal("The packages are not installed. Run `npm install` once, then this again.");
}

/** The environment of wrangler: no questions, no telemetry, no inspector, and its own registry of Workers. */
export function wranglerEnv(folder: string): NodeJS.ProcessEnv {
  const settings = {
    CI: "1",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
    FORCE_COLOR: "0",
    WRANGLER_HIDE_BANNER: "true",
    WRANGLER_LOG_PATH: join(folder, "wrangler-logs"),
    WRANGLER_REGISTRY_PATH: join(folder, "registry"),
    WRANGLER_SEND_METRICS: "false",
    // It serves the whole database on the public port, without a token.
    X_LOCAL_EXPLORER: "false",
    // It stores a trace of every request and statement, which only the explorer shows.
    X_LOCAL_OBSERVABILITY: "false",
  };
  return { ...process.env, ...settings };
}

/** Runs a command of the project's wrangler and returns its output. Errors: a sentence that ends with wrangler's error. */
export function runWrangler(
  of: { root: string; wrangler: string },
  folder: string,
  doing: string,
  args: readonly string[],
): Promise<string> {
  return runNode(folder, doing, [of.wrangler, ...args], of.root);
}

/** As `runWrangler`, for a file that loads wrangler. */
export function runNode(folder: string, doing: string, args: readonly string[], cwd = ROOT): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [...args], { cwd, env: wranglerEnv(folder) }, (error, stdout, stderr) => {
      if (error) reject(new Refusal(`Could not ${doing}: ${lastError(`${stdout}\n${stderr}`)}`));
      else resolve(stdout);
    });
  });
}

/** The error that the Worker threw while loading, or the last error of wrangler, or its last line. Accepts JSON output too. */
export function lastError(output: string): string {
  return errorIn(output) ?? jsonErrorIn(output) ?? linesOf(output).at(-1) ?? "wrangler said nothing";
}

/** The error in the JSON output of wrangler: `{ "error": { "text": "…" } }`. */
function jsonErrorIn(output: string): string | undefined {
  const [, text] = /^\s*\{\s*"error":\s*\{\s*"text":\s*("(?:[^"\\]|\\.)*")/m.exec(output) ?? [];
  return text && oneLine(JSON.parse(text));
}

/** The error that the Worker threw while loading, or the last error line of wrangler or a program. Undefined if there is none. */
export function errorIn(output: string): string | undefined {
  const lines = linesOf(output);
  const errors = lines.map(errorOf).filter((error) => error !== undefined);
  const thrown = errors.findLast((error) => LOADING.test(error));
  const error = thrown ?? errors.at(-1) ?? lines.findLast((line) => /^(?:Uncaught )?\w*Error(?: \[\w+\])?: /.test(line));
  return error?.replace(LOADING, "");
}

/** The text of an error line of wrangler, without its mark. Undefined for other lines, also for requests with the mark in their path. */
export function errorOf(line: string): string | undefined {
  return /^\S \[ERROR\]\s*(.*)$/.exec(oneLine(line))?.[1];
}

function linesOf(output: string): string[] {
  return output
    .split("\n")
    .map(oneLine)
    .filter((line) => line !== "" && !line.startsWith("🪵"));
}

export function isLoadingError(line: string): boolean {
  return LOADING.test(errorOf(line) ?? "");
}

/** The runtime's line for an error that the Worker threw while loading. */
const LOADING = /^service core:user:\S+ Uncaught (?:Error: )?(?:\w+Error: )?/;

/** A path relative to the current folder, as the user writes it. */
export function shown(path: string): string {
  return relative(process.cwd(), path) || ".";
}
