import { query, sql } from "millrace";
import { type Catalog, catalog, dispatch } from "millrace/worker";
import { projecting } from "../src/consumers/projections.ts";
import type { RecordedFact } from "../src/messages/fact.ts";
import { FactRecorded } from "../src/messages/facts.ts";
import { sourceIn } from "../src/systems/facts/ledger/feeds.ts";
import { confirmFacts, ledgerOf } from "../src/systems/facts/ledger/ledgers.ts";
import { factRow } from "../src/systems/facts/projection.ts";
import { batchOf, report } from "./intake.ts";
import type { BenchEnv } from "./runs.ts";

const BATCH = 100;
/** Number of ledgers that have facts in one batch; a tenant with a hundred facts per second has as many. */
const ENTITIES = 10;

/** The app's consumer of recorded facts, with and without confirmations to the ledgers. */
const recorded: Catalog = catalog({ consumers: [projecting] });
const confirmed: Catalog = catalog({ consumers: [projecting], onConfirmed: confirmFacts });

/** Number of facts that one job records; a request with ten facts has as many. */
const JOB = 10;

function factsOf(count: number, series: string): RecordedFact[] {
  const jobs = Array.from({ length: Math.ceil(count / JOB) }, () => crypto.randomUUID());
  return Array.from({ length: count }, (_, index) => ({
    fact_id: `${series}-${index}`,
    entity: `account/${series}-${index % ENTITIES}`,
    type: "webhook_sent" as const,
    occurred_at: new Date().toISOString(),
    payload: { endpoint_id: "e1", delivery_id: `d${index}`, fact_id: `f${index}`, status: 200, attempts: 1 },
    tenant_id: "bench",
    trace_id: jobs[Math.floor(index / JOB)]?.replaceAll("-", "") ?? "",
    correlation_id: jobs[Math.floor(index / JOB)] ?? "",
    causation_id: "bench",
    sequence: Math.floor(index / ENTITIES) + 1,
    recorded_at: new Date().toISOString(),
  }));
}

/**
 * The usual consumer without Millrace. It inserts each message separately, into the same table as the app's consumer, with the same
 * indexes.
 */
export async function plainProjection(env: BenchEnv, count: number, series: string): Promise<number> {
  const settled = { acked: 0 };
  const all = factsOf(count, series);
  const start = performance.now();
  for (let at = 0; at < count; at += BATCH) {
    for (const message of batchOf("projections", all.slice(at, at + BATCH), settled).messages) {
      const payload = message.body as RecordedFact;
      const { text, row } = factRow({ payload, envelope: payload });
      await env.DB.prepare(text)
        .bind(JSON.stringify([row]))
        .run();
      message.ack();
    }
  }
  return checked(env, count, series, report(settled.acked, count, start));
}

/** The app's consumer, which parses and validates envelopes, needs one round trip per batch, and registers ledgers. */
export function engineProjection(env: BenchEnv, count: number, series: string): Promise<number> {
  return consumed(env, recorded, count, series);
}

/** The app's consumer, which also confirms every batch to the ledgers that sent the facts of the batch. */
export async function confirmedProjection(env: BenchEnv, count: number, series: string): Promise<number> {
  const bindings = env as unknown as Env;
  const facts = factsOf(count, series);
  const from = { tenant_id: "bench", trace_id: "a".repeat(32), correlation_id: series, causation_id: "bench" };
  for (const [entity, group] of Map.groupBy(facts, (fact) => fact.entity)) {
    const stated = group.map(({ fact_id, type, occurred_at, payload }) => ({ fact_id, entity, type, occurred_at, payload }));
    await ledgerOf(bindings, "bench", entity).append(from, stated as never);
  }
  return consumed(env, confirmed, count, series);
}

async function consumed(env: BenchEnv, app: Catalog, count: number, series: string): Promise<number> {
  const consume = dispatch(app);
  const bodies = factsOf(count, series).map((fact) => ({
    schema_version: 1,
    message_type: FactRecorded.type,
    kind: "event",
    source: sourceIn(0),
    outbox: "sender",
    correlation_id: fact.correlation_id,
    causation_id: fact.causation_id,
    idempotency_key: `${fact.entity}/${fact.fact_id}`,
    subject: fact.entity,
    tenant_id: fact.tenant_id,
    created_at: fact.recorded_at,
    sequence: fact.sequence,
    traceparent: `00-${fact.trace_id}-${"b".repeat(16)}-01`,
    payload_inline: fact,
  }));
  const settled = { acked: 0 };
  const start = performance.now();
  for (let at = 0; at < count; at += BATCH) await consume(batchOf("projections", bodies.slice(at, at + BATCH), settled), env);
  return checked(env, count, series, report(settled.acked, count, start));
}

/** A rate is reported only if all rows exist. */
async function checked(env: BenchEnv, count: number, series: string, rate: number): Promise<number> {
  const [row] = await query<{ rows: number }>(env.DB, sql`SELECT count(*) AS rows FROM facts WHERE fact_id LIKE ${`${series}-%`}`);
  if (row?.rows !== count) throw new Error(`Only ${row?.rows} of ${count} rows exist.`);
  return rate;
}
