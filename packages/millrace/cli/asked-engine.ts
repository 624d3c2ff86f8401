import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ApiRefusal } from "./api-client.ts";
import { Misuse, Refusal } from "./command.ts";
import { enginesIn } from "./local/folder-lock.ts";
import { shown } from "./local/wrangler.ts";
import { nearestConfig } from "./project.ts";
import { oneLine } from "./terminal.ts";

export const LOCAL = "http://localhost:8787";

/** The engine that a command asks, and who asks it. */
export interface AskedEngine {
  url: string;
  token: string;
  /** Where the token was found, for who is told that it is no good. */
  tokenFrom: string;
}

/** No engine could be asked: nothing answers there, something else does, or there is no token for it. */
export class NotReached extends Refusal {
  override readonly exitCode = 4;
}

/**
 * The engine at an address; without one at that of MILLRACE_URL, or the one that runs on this checkout, or would. Its token is that of
 * MILLRACE_TOKEN. The token of this checkout goes to this machine and nowhere else: a process list shows neither. Errors: a `Misuse` for what
 * is no address or no token, `NotReached` where there is no token.
 */
export function askedEngine(given: string | undefined): AskedEngine {
  const named = given ?? (process.env.MILLRACE_URL?.trim() || undefined);
  const url = (named ?? enginesIn(stateFolder())[0]?.url ?? LOCAL).replace(/\/+$/, "");
  assertAddress(url, given === undefined ? "MILLRACE_URL" : "--url");
  const ofCaller = process.env.MILLRACE_TOKEN?.trim();
  if (ofCaller) return { url, token: sendable(ofCaller, "MILLRACE_TOKEN"), tokenFrom: "MILLRACE_TOKEN" };
  const { hostname, port } = new URL(url);
  if (!isLoopback(hostname)) throw new NotReached(`Set MILLRACE_TOKEN to a token of ${hostname}: npx millrace token makes them.`);
  const running = enginesIn(stateFolder()).find((one) => new URL(one.url).port === port);
  if (named !== undefined && url !== LOCAL && !running)
    throw new NotReached(
      `There is no token for ${url}, which is not an engine of this checkout. Set MILLRACE_TOKEN to a token of that engine.`,
    );
  const file = join(running?.folder ?? stateFolder(), "token");
  if (!existsSync(file))
    throw new NotReached("There is no local engine yet: start one with npx millrace dev. For another engine: --url, with MILLRACE_TOKEN.");
  return { url, token: sendable(readFileSync(file, "utf8").trim(), shown(file)), tokenFrom: file };
}

/** The state of the local engine of the current folder's project. */
const stateFolder = () => join(dirname(nearestConfig(process.cwd()) ?? join(process.cwd(), "wrangler.jsonc")), ".millrace");

/** Errors: a `Misuse`, which tells no password. */
function assertAddress(url: string, from: string): void {
  const { protocol = "", username = "", password = "" } = URL.canParse(url) ? new URL(url) : {};
  if (username || password) throw new Misuse(`${from} contains a user name or a password. Remove them and set MILLRACE_TOKEN.`);
  if (/^https?:$/.test(protocol)) return;
  throw new Misuse(`${from} must be an address, such as ${LOCAL}; got "${oneLine(url.replace(/^([a-z]+:\/\/)?.*@/i, "$1…@"))}".`);
}

/** A token as a header takes it. Errors: a `Misuse` that does not tell it. */
function sendable(token: string, from: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new Misuse(`${from} does not hold a token: it contains a space, a line break or another invalid character. Copy the token again.`);
}

/** An error of asking, with what to do where nothing answered, or something that is no engine. */
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
