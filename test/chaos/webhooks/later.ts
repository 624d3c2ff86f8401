import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inMemory } from "../../in-memory.ts";
import type { Received } from "../../systems/webhooks/receiver.ts";
import { ChaosEngine } from "../engine.ts";

interface LaterOptions {
  /** The number of facts that were recorded while the endpoint was disabled. */
  facts: number;
  /** The number of kills of the engine during the deliveries. */
  kills: number;
  /**
   * Deliveries started per second. A rate above the machine's delivery rate leaves thousands open at a kill, and all of them resume at
   * once.
   */
  perSecond: number;
  say?: (line: string) => void;
}

/** The result, as seen by the receiver's separate process. */
export interface Later {
  state: string;
  matched: number;
  kills: number;
  seconds: number;
  /** Facts that the receiver got, and their `webhook-id`s. */
  facts: number;
  ids: number;
  /** Facts with more than one id, and requests without a valid signature. */
  doubles: number;
  unsigned: number;
  /** Requests beyond one per id: an attempt whose response was lost in a kill. */
  repeats: number;
}

const HOOK = "later";
const TOGETHER = 100;
const LEDGERS = 25;
const LOOK_MS = 250;
const PATIENCE_MS = 300_000;

/** Delivers facts later, by the app's own engine, while its process is killed. */
export async function deliverLater({ facts, kills, perSecond, say = () => undefined }: LaterOptions): Promise<Later> {
  const folder = mkdtempSync(join(inMemory() ?? tmpdir(), "millrace-later-"));
  const receiver = await startReceiver(join(folder, "ledger.jsonl"));
  const engine = new ChaosEngine(folder, { vars: { WEBHOOKS_ALLOW_LOCAL: "true" } });
  try {
    await engine.start();
    const api = apiOf(engine);
    const config = { url: `${receiver.url}/hook/${HOOK}`, fact_types: ["outcome"] };
    const { id, secret } = await api("POST", "/v1/webhooks", { ...config, enabled: false });
    await fetch(`${receiver.url}/tell/${HOOK}`, { method: "PUT", body: JSON.stringify({ secrets: [secret] }) });
    for (let from = 0; from < facts; from += TOGETHER)
      await api("POST", "/v1/facts", { facts: factsFrom(from, Math.min(TOGETHER, facts - from)) });
    await api("POST", `/v1/webhooks/${id}/enable`, { version: 1 });
    const asked = { since: "2026-01-01T00:00:00Z", rate_per_second: perSecond, reason: "it was off" };
    const owed = async () => (await api("POST", `/v1/webhooks/${id}/deliveries`, { ...asked, dry_run: true })).matched as number;
    await until(owed, (count) => count === facts);
    say(`${facts} facts are in the projection`);

    const begunAt = Date.now();
    const bulk = await api("POST", `/v1/webhooks/${id}/deliveries`, asked, "later");
    const look = () => api("GET", `/v1/bulk-actions/${bulk.bulk_action}`);
    let killed = 0;
    const end = await until(look, async ({ state, done, left }) => {
      if (state !== "running") return true;
      if (killed < kills && done > (facts * (killed + 0.1)) / kills) {
        say(`kill -9 ${++killed}: ${done} are done, ${left} are left`);
        const death = killed % 3 === 0 ? "everything" : "runtime";
        await engine.kill(death);
        await engine.revive(death);
      }
      return false;
    });
    const ledger = () => fetch(`${receiver.url}/ledger/${HOOK}`).then((answer) => answer.json() as Promise<Received[]>);
    const requests = await until(ledger, (found) => new Set(found.map((one) => one.id)).size >= facts);
    const byFact = Map.groupBy(requests, ({ body }) => JSON.parse(body).data.fact_id as string);
    const ids = new Set(requests.map((one) => one.id));
    return {
      ...{ state: end.state, matched: end.matched, kills: killed },
      seconds: Math.round((Date.now() - begunAt) / 1000),
      ...{ facts: byFact.size, ids: ids.size },
      doubles: [...byFact.values()].filter((all) => new Set(all.map((one) => one.id)).size > 1).length,
      unsigned: requests.filter(({ verified }) => !verified[0]).length,
      repeats: requests.length - ids.size,
    };
  } finally {
    await engine.end();
    receiver.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function factsFrom(from: number, count: number): object[] {
  return Array.from({ length: count }, (_, n) => ({
    fact_id: `fact-${from + n}`,
    entity: `cart/${(from + n) % LEDGERS}`,
    type: "outcome",
    occurred_at: "2026-10-01T09:30:00Z",
    payload: { account: "shop", value_cents: from + n },
  }));
}

async function startReceiver(ledger: string): Promise<{ url: string; stop: () => void }> {
  const program = join(import.meta.dirname, "../../systems/webhooks/receiver.ts");
  const child = spawn(process.execPath, [program, "--ledger", ledger], { stdio: ["ignore", "pipe", "inherit"] });
  const port = await new Promise<number>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`The receiver ended with ${code}.`)));
    child.stdout.once("data", (line) => resolve(JSON.parse(String(line)).port));
  });
  return { url: `http://127.0.0.1:${port}`, stop: () => void child.kill() };
}

// biome-ignore lint/suspicious/noExplicitAny: answers of several routes
type Answer = any;

/** Calls the API and repeats until it responds, as a client does. */
function apiOf(engine: ChaosEngine) {
  return async (method: "GET" | "POST", path: string, body?: object, key?: string): Promise<Answer> => {
    for (const begunAt = Date.now(); ; await sleep(LOOK_MS)) {
      try {
        const answer = await fetch(engine.url + path, {
          method,
          headers: { authorization: `Bearer ${engine.token}`, "content-type": "application/json", ...(key && { "idempotency-key": key }) },
          body: body ? JSON.stringify(body) : null,
          signal: AbortSignal.timeout(30_000),
        });
        if (answer.ok) return await answer.json();
        if (answer.status < 500) throw new RangeError(`${path}: ${answer.status} ${await answer.text()}`);
      } catch (error) {
        if (error instanceof RangeError || Date.now() - begunAt > PATIENCE_MS) throw error;
      }
    }
  };
}

/** Repeats while the response changes. Errors: after five minutes with the same response. */
async function until<T>(look: () => Promise<T>, isIt: (found: T) => boolean | Promise<boolean>): Promise<T> {
  let [last, changedAt] = ["", Date.now()];
  for (;;) {
    const found = await look();
    if (await isIt(found)) return found;
    const text = JSON.stringify(found);
    if (text !== last) [last, changedAt] = [text, Date.now()];
    if (Date.now() - changedAt > PATIENCE_MS) throw new Error(`No progress: ${text.slice(0, 500)}`);
    await sleep(LOOK_MS);
  }
}
