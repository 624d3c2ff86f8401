import { createExecutionContext, createMessageBatch, getQueueResult, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Envelope } from "millrace";
import type { StatedFact } from "../../../src/messages/fact.ts";
import { ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import worker from "../../../src/worker.ts";
import { type Caller, fresh, type Json, until } from "../../api/client.ts";

/** An outcome in the form in which a caller publishes it. */
export function outcome(entity: string, more: Partial<Json> = {}): StatedFact<"outcome"> {
  return {
    fact_id: fresh("fact"),
    entity,
    type: "outcome",
    occurred_at: "2026-10-01T09:30:00.123Z",
    payload: { account: "a1", value_cents: 250, note: "{'\"\u2028 ü" },
    ...more,
  };
}

/** A fact without consequences. */
export function sent(entity: string, more: Partial<Json> = {}): StatedFact<"webhook_sent"> {
  const payload = { endpoint_id: "e", delivery_id: "d", fact_id: "f", status: 200, attempts: 1 };
  return { fact_id: fresh("fact"), entity, type: "webhook_sent", occurred_at: "2026-10-01T09:30:00Z", payload, ...more };
}

/** The rows of a tenant in the projection, without the time at which they were written. */
export async function projected(tenantId: string, entity?: string): Promise<Json[]> {
  const found = await env.DB.prepare(
    `SELECT tenant_id, entity, sequence, fact_id, type, subtype, occurred_at, recorded_at, trace_id, correlation_id, causation_id, payload
     FROM facts WHERE tenant_id = ?1 AND entity = coalesce(?2, entity) ORDER BY entity, sequence, fact_id`,
  )
    .bind(tenantId, entity ?? null)
    .all();
  return found.results;
}

/** Waits for this number of rows, and returns them. */
export function projectedUntil(tenantId: string, count: number, entity?: string): Promise<Json[]> {
  return until(
    () => projected(tenantId, entity),
    (rows) => rows.length >= count,
  );
}

/** Publishes facts through the API. */
export async function state(caller: Caller, facts: unknown[], more: object = {}, headers: Record<string, string> = {}): Promise<Json[]> {
  const { status, body } = await caller.post("/v1/facts", { facts, ...more }, headers);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.results;
}

/** The result of a rebuild, once the platform reports it as complete as well: its row is complete a moment earlier. */
export async function rebuildOutput(id: string): Promise<Json> {
  const instance = await env.REBUILD_PROJECTION.get(id);
  const ended = await until(
    () => instance.status(),
    ({ status }) => status === "complete",
  );
  return ended.output as Json;
}

export async function ledger(caller: Caller, entity: string): Promise<Json> {
  return (await caller.get(`/v1/ledgers/${encodeURIComponent(entity)}?limit=200`)).body;
}

let deliveries = 0;

/** Delivers a batch to the Worker's queue handler, and returns the number of returned messages. */
export async function deliver(queue: string, bodies: unknown[], bindings: Env = env): Promise<{ acked: number; retried: number }> {
  const messages = bodies.map((body) => ({ id: `m${++deliveries}`, timestamp: new Date(), attempts: 1, body }));
  const batch = createMessageBatch(queue, messages);
  const ctx = createExecutionContext();
  await worker.queue(batch, bindings, ctx);
  const result = await getQueueResult(batch, ctx);
  return { acked: result.explicitAcks.length, retried: result.retryMessages.length };
}

/** Disconnects a ledger's queues until the ledger is evicted: they accept messages, and lose them. Returns those messages. */
export async function loseQueues(caller: Pick<Caller, "tenantId">, entity: string): Promise<Envelope[]> {
  const lost: Envelope[] = [];
  const queue = {
    sendBatch: async (messages: Iterable<{ body: Envelope }>) => void lost.push(...[...messages].map(({ body }) => body)),
    metrics: async () => ({ backlogCount: 0, backlogBytes: 0 }),
  };
  await runInDurableObject(ledgerOf(env, caller.tenantId, entity), (instance) => {
    const own = instance as unknown as { env: object };
    own.env = { ...own.env, PROJECTIONS: queue, FACT_PROCESSING: queue };
  });
  return lost;
}
