import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { Refusal } from "../command.ts";
import { managerOf } from "../package-manager.ts";
import { oneLine } from "../terminal.ts";

export const ROOT = join(import.meta.dirname, "../../../..");
export const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");

/** The oldest and the newest version of wrangler with which Millrace was tested. Millrace refuses older versions. */
export const TRIED = { oldest: "4.156.0", newest: "4.164.0" };

/**
 * The command that installs wrangler in the project of a folder or file. The command names an exact version. With a range or a tag, npm
 * would choose an old version if Node is older than the newest wrangler requires.
 */
export const installWrangler = (from: string) => `${managerOf(from).add} -D wrangler@${TRIED.newest}`;

export function wranglerVersion(wrangler: string): string {
  return (JSON.parse(readFileSync(join(dirname(wrangler), "../package.json"), "utf8")) as { version: string }).version;
}

/** The reason why a wrangler cannot run or deploy an engine. Undefined if it can do both. */
export function wranglerRefusal(wrangler: string): string | undefined {
  const version = wranglerVersion(wrangler);
  if (!isOlder(version, TRIED.oldest)) return undefined;
  return `wrangler ${version} is too old: Millrace needs ${TRIED.oldest} or newer. Install it: ${installWrangler(wrangler)}`;
}

/** Checks the version of the project's wrangler. Errors: a `Refusal` if wrangler is not installed, or too old. */
export function requireWrangler({ wrangler }: { wrangler: string }): void {
  const refusal = wranglerRefusal(wrangler);
  if (refusal !== undefined) throw new Refusal(refusal);
}

/** A sentence about a version of wrangler that is newer than the newest tested version. Undefined for other versions. */
export function untriedWords(version: string): string | undefined {
  if (!isOlder(TRIED.newest, version)) return undefined;
  return `wrangler ${version} is newer than ${TRIED.newest}, the newest version that Millrace was tried with.`;
}

function isOlder(one: string, other: string): boolean {
  const [a, b] = [one, other].map((version) => version.split(/[.-]/).slice(0, 3).map(Number));
  const at = a?.findIndex((part, index) => part !== b?.[index]) ?? -1;
  return at >= 0 && (a?.[at] ?? 0) < (b?.[at] ?? 0);
}

export function requireInstalled(): void {
  if (!existsSync(WRANGLER)) throw new Refusal("The packages are not installed. Run `npm install` once, then this again.");
}

/** The environment variables for wrangler. They disable questions, telemetry and the inspector, and set a separate registry of Workers. */
export function wranglerEnv(folder: string): NodeJS.ProcessEnv {
  const settings = {
    CI: "1",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
    FORCE_COLOR: "0",
    WRANGLER_HIDE_BANNER: "true",
    WRANGLER_LOG_PATH: join(folder, "wrangler-logs"),
    WRANGLER_REGISTRY_PATH: join(folder, "registry"),
    WRANGLER_SEND_METRICS: "false",
    // The local explorer serves the whole database on the public port, without a token.
    X_LOCAL_EXPLORER: "false",
    // Observability stores a trace of every request and statement, which only the local explorer shows.
    X_LOCAL_OBSERVABILITY: "false",
  };
  return { ...process.env, ...settings };
}

/** Runs a command of the project's wrangler and returns its output. Errors: an error whose message ends with wrangler's error. */
export function runWrangler(
  of: { root: string; wrangler: string },
  folder: string,
  doing: string,
  args: readonly string[],
): Promise<string> {
  return runNode(folder, doing, [of.wrangler, ...args], of.root);
}

/**
 * Runs a Node script that loads wrangler, and returns the script's output. The environment and the errors are the same as for
 * `runWrangler`.
 */
export function runNode(folder: string, doing: string, args: readonly string[], cwd = ROOT): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [...args], { cwd, env: wranglerEnv(folder) }, (error, stdout, stderr) => {
      if (error) reject(new Refusal(`Could not ${doing}: ${lastError(`${stdout}\n${stderr}`)}`));
      else resolve(stdout);
    });
  });
}

/**
 * The error to show for an output. It is the error that the Worker threw while loading, the last error of wrangler, or the last line of the
 * output. The output may be JSON.
 */
export function lastError(output: string): string {
  return errorIn(output) ?? jsonErrorIn(output) ?? linesOf(output).at(-1) ?? "wrangler said nothing";
}

/** The error in the JSON output of wrangler: `{ "error": { "text": "…" } }`. */
function jsonErrorIn(output: string): string | undefined {
  const [, text] = /^\s*\{\s*"error":\s*\{\s*"text":\s*("(?:[^"\\]|\\.)*")/m.exec(output) ?? [];
  return text && oneLine(JSON.parse(text));
}

/**
 * The error that the Worker threw while loading, or the last error line of wrangler or a program. Undefined if the output has no error.
 */
export function errorIn(output: string): string | undefined {
  const lines = linesOf(output);
  const errors = lines.flatMap((line, at) => wholeError(line, lines.slice(at + 1)) ?? []);
  const thrown = errors.findLast((error) => LOADING.test(error));
  const error = thrown ?? errors.at(-1) ?? lines.findLast((line) => /^(?:Uncaught )?\w*Error(?: \[\w+\])?: /.test(line));
  return error?.replace(LOADING, "");
}

/** An error of wrangler. If the error ends with a colon, the list items after the error are included. */
function wholeError(line: string, after: readonly string[]): string | undefined {
  const error = errorOf(line);
  if (!error?.endsWith(":")) return error;
  const end = after.findIndex((one) => !one.startsWith("- "));
  return [error, ...after.slice(0, end < 0 ? undefined : end)].join(" ");
}

/**
 * The text of an error line of wrangler, without wrangler's prefix. Undefined for other lines, such as a log line of a request whose path
 * contains the prefix.
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

export function isLoadingError(line: string): boolean {
  return LOADING.test(errorOf(line) ?? "");
}

/** Matches the runtime's log line for an error that the Worker threw while loading. */
const LOADING = /^service core:user:\S+ Uncaught (?:Error: )?(?:\w+Error: )?/;

/** A path relative to the current folder, as a user would type the path. */
export function shown(path: string): string {
  return relative(process.cwd(), path) || ".";
}
