import { type Envelope, traceIdOf } from "../engine/index.ts";
import type { Provenance, StatedFact } from "../facts/fact.ts";
import { type Appended, LEDGER_SOURCE, type Ledger } from "./ledger.ts";

/** One entity's ledger. It comes into being when it is first asked. */
export function ledgerOf(env: Env, tenantId: string, entity: string): DurableObjectStub<Ledger> {
  return env.LEDGER.get(env.LEDGER.idFromName(`${tenantId}/${entity}`));
}

/** Appends facts to their ledgers, one call for each ledger. Answers one result per fact, in order. Safe to repeat. */
export async function appendFacts(env: Env, from: Provenance, facts: readonly StatedFact[]): Promise<Appended[]> {
  const answers: Appended[] = new Array(facts.length);
  const indexed = facts.map((fact, index) => ({ fact, index }));
  await Promise.all(
    [...Map.groupBy(indexed, ({ fact }) => fact.entity)].map(async ([entity, group]) => {
      const appended = await ledgerOf(env, from.tenant_id, entity).append(
        from,
        group.map(({ fact }) => fact),
      );
      for (const [at, { index }] of group.entries()) answers[index] = appended[at] as Appended;
    }),
  );
  return answers;
}

/** Tells ledgers which of their facts a queue's consumer has: one call for each ledger in the batch. */
export async function confirmFacts(env: Env, events: readonly Envelope[]): Promise<void> {
  const facts = events.filter(({ source, sequence }) => source === LEDGER_SOURCE && sequence !== undefined);
  const groups = Map.groupBy(facts, ({ tenant_id, subject, message_type }) => JSON.stringify([tenant_id, subject, feedOf(message_type)]));
  await Promise.all(
    [...groups].map(([group, confirmed]) => {
      const [tenantId, entity, feed] = JSON.parse(group) as [string, string, string];
      return ledgerOf(env, tenantId, entity).confirm(
        feed,
        confirmed.flatMap(({ sequence }) => sequence ?? []),
      );
    }),
  );
}

/** Where a fact comes from that follows from a message. */
export function provenanceOf(envelope: Envelope): Provenance {
  return {
    tenant_id: envelope.tenant_id,
    trace_id: traceIdOf(envelope.traceparent),
    correlation_id: envelope.correlation_id,
    causation_id: envelope.idempotency_key.slice(0, 300),
  };
}

function feedOf(messageType: string): string {
  return messageType === "fact.recorded" ? "projections" : "fact-processing";
}
