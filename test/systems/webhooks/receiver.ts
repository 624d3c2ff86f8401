import { appendFileSync, openSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Webhook } from "standardwebhooks";

// A receiver of webhooks in a separate process, built on the reference library. It appends every request to a ledger, which is the only
// record of arrivals. It also runs a DNS-over-HTTPS service with configured responses. Run it with: node test/systems/webhooks/receiver.ts
// --ledger FILE

/** One request as received. */
export interface Received {
  hook: string;
  id: string;
  timestamp: string;
  signatures: string[];
  headers: Record<string, string>;
  body: string;
  /** The hook's secrets with which the reference library accepts the signature, in order. */
  verified: boolean[];
  /** The response: a status, or the reason why there was none. */
  answered: number | string;
}

/**
 * The treatment of the next requests to a hook. `drop` accepts it and closes the connection; `hang` never responds; `flood` responds with
 * 5 MB; `endless` never stops; `half` closes after the first half of the text, and `short` ends there as if it were complete.
 */
export interface Treatment {
  status?: number;
  headers?: Record<string, string>;
  text?: string;
  mode?: "drop" | "hang" | "flood" | "endless" | "half" | "short";
  times: number;
}

interface Hook {
  secrets: string[];
  treatments: Treatment[];
}

/** The resolver's response for a name. With `held` it does not respond until it is reconfigured, and for another half second. */
interface Records {
  status?: number;
  http?: number;
  a?: string[];
  aaaa?: string[];
  held?: boolean;
  asked?: number;
}

const { values } = parseArgs({ options: { ledger: { type: "string" } } });
if (!values.ledger) throw new Error("Name the file of the ledger: --ledger FILE");
const file = openSync(values.ledger, "a");
const ledger: Received[] = [];
const hooks = new Map<string, Hook>();
const dns = new Map<string, Records>();

// A connection that closes as the next request starts looks like a network failure. A client that disconnects early ends that request, not
// this process.
createServer({ keepAliveTimeout: 0 }, (request, response) => void answer(request, response).catch(() => response.destroy())).listen(
  0,
  "127.0.0.1",
  function (this: import("node:net").Server) {
    console.log(JSON.stringify({ port: (this.address() as { port: number }).port }));
  },
);

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://receiver");
  const [, area = "", name = ""] = url.pathname.split("/");
  const body = await text(request);
  if (area === "hook") return void receive(name, request, body, response);
  if (area === "dns-query") return void resolve(url, response);
  if (area === "dns" && request.method === "GET") return void send(response, 200, { asked: dns.get(name)?.asked ?? 0 });
  if (area === "dns") dns.set(name, JSON.parse(body));
  if (area === "tell") hooks.set(name, { secrets: [], treatments: [], ...hooks.get(name), ...JSON.parse(body) });
  send(
    response,
    200,
    ledger.filter(({ hook }) => hook === name),
  );
}

function receive(name: string, request: IncomingMessage, body: string, response: ServerResponse): void {
  const hook = hooks.get(name) ?? { secrets: [], treatments: [] };
  const treatment = hook.treatments.find(({ times }) => times > 0);
  if (treatment) treatment.times--;
  const headers = request.headers as Record<string, string>;
  note({
    hook: name,
    id: headers["webhook-id"] ?? "",
    timestamp: headers["webhook-timestamp"] ?? "",
    signatures: headers["webhook-signature"]?.split(" ") ?? [],
    headers,
    body,
    verified: hook.secrets.map((secret) => verifies(secret, body, headers)),
    answered: treatment?.mode ?? treatment?.status ?? 204,
  });
  if (treatment?.mode === "drop") return void response.destroy();
  if (treatment?.mode === "hang") return;
  if (treatment?.mode === "flood") return void response.end("x".repeat(5 * 1024 * 1024));
  if (treatment?.mode === "endless") return void pour(response);
  // Without a length and without chunks a body ends when its connection ends.
  if (treatment?.mode === "short") response.useChunkedEncodingByDefault = false;
  response.writeHead(treatment?.status ?? 204, treatment?.headers);
  const half = treatment?.text?.slice(0, treatment.text.length / 2);
  if (treatment?.mode === "half") return void response.write(half, () => setTimeout(() => response.destroy(), 50));
  response.end(treatment?.mode === "short" ? half : treatment?.text);
}

function verifies(secret: string, body: string, headers: Record<string, string>): boolean {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

function note(received: Received): void {
  ledger.push(received);
  appendFileSync(file, `${JSON.stringify(received)}\n`);
}

function pour(response: ServerResponse): void {
  const timer = setInterval(() => response.write("drop "), 5);
  response.once("close", () => clearInterval(timer));
}

async function resolve(url: URL, response: ServerResponse): Promise<void> {
  const type = url.searchParams.get("type");
  const name = url.searchParams.get("name") ?? "";
  const found = dns.get(name);
  if (found) found.asked = (found.asked ?? 0) + 1;
  if (found?.held) await sleep(500);
  while (dns.get(name)?.held) await sleep(20);
  const { status = 0, http = 200, a = [], aaaa = [] } = dns.get(name) ?? { status: 3 };
  const data = type === "AAAA" ? aaaa : a;
  send(response, http, { Status: status, Answer: data.map((one) => ({ type: type === "AAAA" ? 28 : 1, TTL: 60, data: one })) });
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
