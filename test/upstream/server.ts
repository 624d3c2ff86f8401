import { appendFileSync, fsyncSync, openSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";

// The upstream, in a separate process: it executes effects, and appends each to a durable ledger, which is the only record of how often an
// effect happened. Run it with: node test/upstream/server.ts --ledger FILE [--port N]

/** One effect that happened. */
export interface LedgerEntry {
  kind: "keyed" | "plain" | "natural";
  subject: string;
  key: string;
  /** The upstream's own id of the effect, as in its response. */
  id: string;
}

/** The upstream's treatment of the next requests about a subject. */
export interface Behaviour {
  subject: string;
  /**
   * `refuse` has no effect and responds with `status`. The others have the effect: `drop` never responds; `fail` responds with `status`;
   * `slow` has the effect after `delayMs`; `busy` responds that it is still running; `late` responds after `delayMs`; `garble` responds
   * with half of its response; `cut` ends the connection in the middle of its response; `flood` responds with 10 MB.
   */
  mode: "refuse" | "drop" | "fail" | "slow" | "busy" | "late" | "garble" | "cut" | "flood";
  status?: number;
  retryAfter?: number;
  delayMs?: number;
  times: number;
}

const { values } = parseArgs({ options: { ledger: { type: "string" }, port: { type: "string", default: "0" } } });
if (!values.ledger) throw new Error("Name the file of the ledger: --ledger FILE");
const file = openSync(values.ledger, "a+");
const ledger: LedgerEntry[] = readFileSync(values.ledger, "utf8")
  .split("\n")
  .filter(Boolean)
  .map((line) => JSON.parse(line));
const behaviours: Behaviour[] = [];
const inProgress = new Set<string>();
/** Subjects and times of all requested effects, in order, including effects that did not happen. */
const calls: { subject: string; at: number }[] = [];
/** The number of replays of each run's code, as reported by the runs. */
const passes = new Map<string, number>();

// A connection that closes as the next request is sent looks like a network failure.
createServer({ keepAliveTimeout: 0 }, async (request, response) => {
  try {
    await answer(request, response);
  } catch (error) {
    if (response.headersSent) response.destroy();
    else send(response, 500, { error: String(error) });
  }
}).listen(Number(values.port), "127.0.0.1", function (this: import("node:net").Server) {
  console.log(JSON.stringify({ port: (this.address() as { port: number }).port }));
});

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://upstream");
  const [, area = "", ...rest] = url.pathname.split("/");
  const subject = decodeURIComponent(rest.join("/"));
  const body = await text(request);
  if (area === "ledger") return send(response, 200, about(subject));
  if (area === "calls") return send(response, 200, { calls: calls.filter((one) => one.subject.startsWith(subject)) });
  if (area === "behaviours") {
    behaviours.push(...(JSON.parse(body) as Behaviour[]));
    return send(response, 200, {});
  }
  if (area === "passes") {
    const count = (passes.get(subject) ?? 0) + (request.method === "POST" ? 1 : 0);
    passes.set(subject, count);
    return send(response, 200, { count });
  }
  if (request.method === "GET") {
    const found = ledger.find((entry) => entry.subject === subject);
    return found ? send(response, 200, { id: found.id }) : send(response, 404, { error: "nothing was done" });
  }
  await perform(area as LedgerEntry["kind"], subject, String(request.headers["idempotency-key"] ?? ""), response);
}

/** The ledger's entries of a subject; of all subjects with a prefix, if it ends with a slash; or all entries. */
function about(subject: string): LedgerEntry[] {
  if (subject === "") return ledger;
  return ledger.filter((entry) => (subject.endsWith("/") ? entry.subject.startsWith(subject) : entry.subject === subject));
}

async function perform(kind: LedgerEntry["kind"], subject: string, key: string, response: ServerResponse): Promise<void> {
  calls.push({ subject, at: Date.now() });
  const behaviour = take(subject);
  if (behaviour?.mode === "refuse") {
    if (behaviour.retryAfter !== undefined) response.setHeader("retry-after", String(behaviour.retryAfter));
    return send(response, behaviour.status ?? 503, { error: "refused" });
  }
  const known = kind === "keyed" ? ledger.find((entry) => entry.key === key && entry.kind === "keyed") : undefined;
  if (known) return send(response, 200, { id: known.id });
  if (kind === "keyed" && inProgress.has(key)) {
    response.setHeader("retry-after", "1");
    return send(response, 409, { error: "in progress" });
  }
  inProgress.add(key);
  if (behaviour?.mode === "slow") await new Promise((resolve) => setTimeout(resolve, behaviour.delayMs ?? 0));
  const id = `${kind}-${ledger.length + 1}`;
  const entry: LedgerEntry = { kind, subject, key, id };
  ledger.push(entry);
  appendFileSync(file, `${JSON.stringify(entry)}\n`);
  fsyncSync(file);
  inProgress.delete(key);
  if (behaviour?.mode === "late") await new Promise((resolve) => setTimeout(resolve, behaviour.delayMs ?? 0));
  if (behaviour?.mode === "busy") return send(response, 409, { error: "in progress" });
  if (behaviour?.mode === "drop") return void response.destroy();
  if (behaviour?.mode === "fail") return send(response, behaviour.status ?? 500, { error: "failed after the effect" });
  if (behaviour?.mode === "garble") return void response.writeHead(200, { "content-type": "application/json" }).end('{"id":"');
  if (behaviour?.mode === "cut") {
    response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
    return void response.write('{"id":"', () => response.destroy());
  }
  send(response, 200, behaviour?.mode === "flood" ? { id, more: ".".repeat(10_000_000) } : { id });
}

function take(subject: string): Behaviour | undefined {
  const behaviour = behaviours.find((one) => one.subject === subject && one.times > 0);
  if (behaviour) behaviour.times--;
  return behaviour;
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
