import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Envelope, ids } from "millrace";
import { outbox } from "millrace/worker";
import { onTestFinished, vi } from "vitest";
import type { FactPayload, RecordedFact } from "../../../src/messages/fact.ts";
import { PROCESSED_EVENTS } from "../../../src/messages/facts.ts";
import { confirmFacts, ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import worker from "../../../src/worker.ts";

type Derivable = keyof typeof PROCESSED_EVENTS;

const TRACE = "0af7651916cd43dd8448eb211c80319c";

/** A fact in the form of its ledger. */
export async function messageOf(fact: RecordedFact): Promise<Envelope> {
  const { tenant_id, correlation_id, causation_id, trace_id, entity, fact_id, sequence } = fact;
  return outbox.address(env.PAYLOADS, PROCESSED_EVENTS[fact.type as Derivable].from(fact as never), {
    tenantId: tenant_id,
    source: "ledger",
    outbox: "sender",
    correlationId: correlation_id,
    causationId: causation_id,
    traceparent: `00-${trace_id}-b7ad6b7169203331-01`,
    idempotencyKey: `${entity}/${fact_id}`,
    sequence,
    owner: fact_id,
  });
}

/** A fact in its own ledger, in the form in which a ledger accepts it. */
export function recordedFact<Type extends Derivable>(
  tenantId: string,
  type: Type,
  factId: string,
  payload: FactPayload<Type>,
  more: Partial<RecordedFact> = {},
): RecordedFact {
  return {
    fact_id: factId,
    entity: `${type}/${factId}`,
    type,
    occurred_at: "2026-10-01T09:30:00.000Z",
    payload,
    tenant_id: tenantId,
    trace_id: TRACE,
    correlation_id: "job",
    causation_id: "test",
    sequence: 1,
    recorded_at: new Date().toISOString(),
    ...more,
  } as RecordedFact;
}

/** Delivers facts to the Worker's queue handler as one batch, and returns the numbers of acknowledged and of returned messages. */
export async function deliver(facts: readonly RecordedFact[], to: Env = env): Promise<{ acked: number; retried: number }> {
  return deliverMessages(await Promise.all(facts.map(messageOf)), to);
}

/** Batches that tests created. */
const handed = new WeakSet<object>();

/**
 * Until the end of the test, deliveries of some tenants' facts by the real queues are acknowledged without effect: the test delivers these
 * facts itself, and leaves no backlog to other tests.
 */
export function deliverByHand(tenants: ReadonlySet<string>): void {
  const deliver = worker.queue.bind(worker);
  const spy = vi.spyOn(worker, "queue").mockImplementation(async (batch, bindings, ctx) => {
    const messages = batch.messages as readonly Message<Envelope>[];
    if (handed.has(batch) || !messages.every(({ body }) => tenants.has(body.tenant_id))) return deliver(batch, bindings, ctx);
    batch.ackAll();
    await confirmFacts(
      bindings,
      messages.map(({ body }) => body),
    );
  });
  onTestFinished(() => spy.mockRestore());
}

/** Messages that no ledger would write, delivered like facts. */
export async function deliverMessages(bodies: readonly Envelope[], to: Env = env): Promise<{ acked: number; retried: number }> {
  const batch = createMessageBatch(
    "fact-processing",
    bodies.map((body, index) => ({ id: ids.digest(outbox.messageId(body), String(index)), timestamp: new Date(), attempts: 1, body })),
  );
  handed.add(batch);
  const ctx = createExecutionContext();
  await worker.queue(batch, to, ctx);
  const result = await getQueueResult(batch, ctx);
  return {
    acked: result.ackAll ? bodies.length : result.explicitAcks.length,
    retried: result.retryBatch.retry ? bodies.length : result.retryMessages.length,
  };
}

/** All facts of a ledger. */
export async function factsOf(tenantId: string, entity: string): Promise<RecordedFact[]> {
  return (await ledgerOf(env, tenantId, entity).read(0, 10_000)) as RecordedFact[];
}

/** A version of a tenant's rules that was added at a time that the test chooses. */
export async function seedRules(tenantId: string, version: number, effectiveAt: number, rules: unknown): Promise<void> {
  await env.DB.prepare(
    "INSERT INTO qualification_rules (tenant_id, version, effective_at, rules, created_at, who) VALUES (?, ?, ?, ?, ?, 'ada')",
  )
    .bind(tenantId, version, effectiveAt, JSON.stringify(rules), version === 1 ? 0 : effectiveAt - 1)
    .run();
}

/** The same random values for the same seed. */
export function chances(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function shuffled<T>(items: readonly T[], chance: () => number): T[] {
  const result = [...items];
  for (let at = result.length - 1; at > 0; at--) {
    const other = Math.floor(chance() * (at + 1));
    [result[at], result[other]] = [result[other] as T, result[at] as T];
  }
  return result;
}
