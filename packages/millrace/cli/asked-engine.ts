import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ApiRefusal } from "./api-client.ts";
import { Misuse, Refusal } from "./command.ts";
import { enginesIn } from "./local/folder-lock.ts";
import { shown } from "./local/wrangler.ts";
import { nearestConfig } from "./project.ts";
import { oneLine } from "./terminal.ts";

export const LOCAL = "http://localhost:8787";

/** The address of the engine that a command calls, and the token for the engine. */
export interface AskedEngine {
  url: string;
  token: string;
  /** The name of the variable or file from which the token was read, for error messages. */
  tokenFrom: string;
}

/** The error of a command that has no token, gets no answer, or calls a server that is not an engine. */
export class NotReached extends Refusal {
  override readonly exitCode = 4;
}

/**
 * Selects the engine. Its address: `given`, else MILLRACE_URL, else the running engine of this project, else localhost:8787 with
 * MILLRACE_TOKEN. Its token: `token`, else MILLRACE_TOKEN, or for a local engine the token file, which is sent to loopback addresses
 * only. `option` is the option that gave the address, for errors. Errors: a `Misuse` for an invalid address or token, `NotReached` without a
 * token or a running engine.
 */
export function askedEngine(given: string | undefined, token?: string, option = "--url"): AskedEngine {
  const named = given ?? (process.env.MILLRACE_URL?.trim() || undefined);
  const url = (named ?? enginesIn(stateFolder())[0]?.url ?? LOCAL).replace(/\/+$/, "");
  assertAddress(url, given === undefined ? "MILLRACE_URL" : option);
  if (token !== undefined) return { url, token: sendable(token, "--token"), tokenFrom: "--token" };
  const ofCaller = process.env.MILLRACE_TOKEN?.trim();
  if (ofCaller) return { url, token: sendable(ofCaller, "MILLRACE_TOKEN"), tokenFrom: "MILLRACE_TOKEN" };
  const { hostname, port } = new URL(url);
  if (!isLoopback(hostname)) throw new NotReached(`Set MILLRACE_TOKEN to a token of ${hostname}: npx millrace token makes them.`);
  const running = enginesIn(stateFolder()).find((one) => new URL(one.url).port === port);
  if (named !== undefined && url !== LOCAL && !running)
    throw new NotReached(
      `There is no token for ${url}, which is not an engine of this checkout. Set MILLRACE_TOKEN to a token of that engine.`,
    );
  if (named === undefined && !running)
    throw new NotReached("No engine of this folder runs: npx millrace dev starts one. For another engine: --url, with MILLRACE_TOKEN.");
  const file = join(running?.folder ?? stateFolder(), "token");
  if (!existsSync(file))
    throw new NotReached(
      `There is no token for ${url}, because no engine of this folder runs. Set MILLRACE_TOKEN to a token of that engine.`,
    );
  return { url, token: sendable(readFileSync(file, "utf8").trim(), shown(file)), tokenFrom: file };
}

const stateFolder = () => join(dirname(nearestConfig(process.cwd()) ?? join(process.cwd(), "wrangler.jsonc")), ".millrace");

/** Errors: a `Misuse`, without the password of the address. */
function assertAddress(url: string, from: string): void {
  const { protocol = "", username = "", password = "" } = URL.canParse(url) ? new URL(url) : {};
  if (username || password) throw new Misuse(`${from} contains a user name or a password. Remove them and set MILLRACE_TOKEN.`);
  if (/^https?:$/.test(protocol)) return;
  throw new Misuse(`${from} must be an address, such as ${LOCAL}; got "${oneLine(url.replace(/^([a-z]+:\/\/)?.*@/i, "$1…@"))}".`);
}

/** Checks that a token contains only characters that are valid in a header. Errors: a `Misuse` without the token. */
function sendable(token: string, from: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new Misuse(`${from} does not hold a token: it contains a space, a line break or another invalid character. Copy the token again.`);
}

/** Converts a connection error, or an answer of another server, to `NotReached` with the next step. */
export function orNotReached({ url }: AskedEngine, error: unknown): unknown {
  if (!(error instanceof ApiRefusal) || error.problem !== undefined) return error;
  if (error.status !== undefined)
    return new NotReached(`The server at ${url} is not a Millrace engine. It answered ${error.status}. Check the address.`);
  const { hostname } = new URL(url);
  const start = isLoopback(hostname)
    ? "Start an engine with npx millrace dev, or pass its address: --url http://localhost:<port>."
    : "Check the address.";
  return new NotReached(`${error.message} ${start}`);
}

function isLoopback(hostname: string): boolean {
  return ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
}
