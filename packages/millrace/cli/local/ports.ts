import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Misuse, Refusal } from "../command.ts";

const HOST = "127.0.0.1";
/** The addresses that are checked, because a server on all addresses, or only on IPv6, also uses the port of `localhost`. */
const HOSTS = [HOST, "::1", "0.0.0.0"];

const START = "npx millrace dev";

/**
 * The requested port: `--port 9000`, `--port=9000` or the variable PORT. `typed` is the command that error messages suggest before the
 * option.
 */
export function portFrom(args: readonly string[], variable: string | undefined, otherwise: number, typed = START): number {
  const swallowed = process.env.npm_config_port;
  const place = args.findIndex((arg) => arg === "--port" || arg.startsWith("--port="));
  const asked = place < 0 ? variable || String(otherwise) : (args[place]?.split("=")[1] ?? args[place + 1] ?? "");
  if (place < 0 && swallowed) throw new Misuse(`npm consumed the option --port. Use: ${typed} --port ${swallowed}`);
  const port = Number(asked);
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new Misuse(`"${asked}" is not a port. Choose one from 1 to 65535, such as: ${typed} --port 9000`);
}

/** Checks a port. Errors: a `Refusal` if browsers and `fetch` block the port, such as 22. */
export async function requireCallable(port: number, typed = START): Promise<void> {
  if (!(await isBlocked(port))) return;
  throw new Refusal(`Browsers block port ${port}, which belongs to another protocol. Choose another: ${typed} --port 8787`);
}

/** How long the port may remain in use after the process of a killed runtime has ended. */
const CLOSING_MS = 2_000;
const LOOK_EVERY_MS = 50;

/** Waits until a port is free. Errors: a `Refusal` if the port remains in use. */
export async function requireFree(port: number, typed = START): Promise<void> {
  const until = Date.now() + CLOSING_MS;
  for (const host of HOSTS) {
    let code = await listen(port, host);
    while (code === "EADDRINUSE" && Date.now() < until) {
      await sleep(LOOK_EVERY_MS);
      code = await listen(port, host);
    }
    if (code === "EADDRINUSE") {
      throw new Refusal(`Port ${port} is in use. Stop the process that listens there, or choose another port: ${typed} --port ${port + 1}`);
    }
    if (code === "EACCES") throw new Refusal(`Port ${port} needs more permissions. Choose a port above 1023: ${typed} --port 8787`);
  }
}

/** `fetch` refuses the blocked ports (https://fetch.spec.whatwg.org/#port-blocking) before it connects. */
async function isBlocked(port: number): Promise<boolean> {
  const signal = AbortSignal.timeout(BLOCKED_WITHIN_MS);
  const refusal = await fetch(`http://${HOST}:${port}`, { method: "HEAD", signal }).catch((error: unknown) => error);
  return refusal instanceof Error && refusal.cause instanceof Error && refusal.cause.message === "bad port";
}

const BLOCKED_WITHIN_MS = 500;

/** The range is below the ephemeral ports, so that the system does not give a port of an engine to another program during a restart. */
const PORTS = { first: 20_000, count: 10_000 };
const TRIES = 50;

export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = PORTS.first + Math.floor(Math.random() * PORTS.count);
    if (await isFree(port)) return port;
  }
  throw new Refusal(`No free port was found in ${TRIES} tries from ${PORTS.first} up. Choose one: npx millrace dev --port 8787`);
}

/** Checks the addresses one after another, because sockets on several addresses at the same time would conflict. */
async function isFree(port: number): Promise<boolean> {
  for (const host of HOSTS) if ((await listen(port, host)) === "EADDRINUSE") return false;
  return true;
}

/**
 * Binds the port and releases it immediately. Returns the error code, or undefined if the port is free or the machine lacks the address.
 */
function listen(port: number, host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer().once("error", (error: NodeJS.ErrnoException) => resolve(error.code));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
