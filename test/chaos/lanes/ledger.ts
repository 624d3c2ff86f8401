import { appendFileSync, fsyncSync, openSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Entry, Told, ToldLetter } from "./entries.ts";
import { judge } from "./judge.ts";

// The records of the lanes' handlers, senders and operators, in a process that is never killed. It appends each line to a file and syncs it
// before it responds, and checks the lanes by these lines alone. Run it with: node test/chaos/lanes/ledger.ts --ledger FILE

/** The progress of the lanes. */
export interface Far {
  /** Messages that are done, or dead letters. */
  over: number;
  /** Processes that have handled messages. */
  lives: number;
}

/** The duration of a delivery. */
const WORK_MS = 3;

const { values } = parseArgs({ options: { ledger: { type: "string" } } });
if (!values.ledger) throw new Error("Name the file of the ledger: --ledger FILE");
const file = openSync(values.ledger, "a");
const entries: Entry[] = [];
const over = new Set<string>();
const lives = new Set<string>();
/** Handlers that wait for the response to a delivery. */
const atWork = new Set<string>();
/** The refusals of each message by its id, and of each dead letter by its message's id. */
const refusals = new Map<string, number>();

// A connection that closes as the next request starts looks like a network failure.
createServer({ keepAliveTimeout: 0 }, (request, response) => {
  answer(request, response).catch((error) => send(response, 500, { error: String(error) }));
}).listen(0, "127.0.0.1", function (this: import("node:net").Server) {
  console.log(JSON.stringify({ port: (this.address() as { port: number }).port }));
});

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.url === "/far") return send(response, 200, { over: over.size, lives: lives.size } satisfies Far);
  if (request.url === "/verdict") return send(response, 200, judge(entries));
  const body = JSON.parse(await text(request));
  if (request.url === "/deliveries") return send(response, (await deliver(body)) ? 200 : 503, {});
  if (request.url === "/letters") return send(response, lay(body) ? 200 : 503, {});
  write(...(body as Entry[]));
  send(response, 200, {});
}

async function deliver(told: Told): Promise<boolean> {
  const handler = `${told.life} ${told.lane} ${told.key}`;
  const isDone = !refuses(told.id, told.fails);
  write({ is: "delivery", ...told, did: isDone ? "done" : "refused", beside: atWork.has(handler) });
  atWork.add(handler);
  await sleep(WORK_MS);
  atWork.delete(handler);
  return isDone;
}

/** The first hand-over of some dead letters is refused. */
function lay(told: ToldLetter): boolean {
  const taken = !refuses(`letter ${told.id}`, told.n % 3 === 0 ? 1 : 0);
  write({ is: "letter", ...told, taken });
  return taken;
}

function refuses(what: string, times: number): boolean {
  const refused = refusals.get(what) ?? 0;
  if (refused < times) refusals.set(what, refused + 1);
  return refused < times;
}

function write(...some: Entry[]): void {
  appendFileSync(file, some.map((one) => `${JSON.stringify(one)}\n`).join(""));
  fsyncSync(file);
  entries.push(...some);
  for (const one of some) {
    if ("life" in one) lives.add(one.life);
    if (one.is === "turn" && one.at === "ends") over.add(`turn ${one.key} ${one.n}`);
    if ((one.is === "delivery" && one.did === "done") || (one.is === "letter" && one.taken)) over.add(`${one.lane} ${one.key} ${one.n}`);
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
