import type { EngineEnv, Envelope } from "millrace";
import { type Catalog, dispatch } from "millrace/worker";

const BATCH = 100;

/** Creates messages; every tenth message is a duplicate of an earlier message. */
function envelopes(count: number, series: string): Envelope[] {
  return Array.from({ length: count }, (_, index) => {
    const id = `${series}-${index % 10 === 9 ? index - 5 : index}`;
    return {
      schema_version: 1,
      message_type: "bench.empty",
      kind: "command",
      source: "bench",
      correlation_id: series,
      causation_id: "bench",
      idempotency_key: id,
      subject: id,
      tenant_id: "bench",
      created_at: new Date().toISOString(),
      traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
      payload_inline: { id },
    };
  });
}

/** A batch as a queue delivers it, which counts the acknowledged messages in `settled`. */
export function batchOf(queue: string, bodies: readonly unknown[], settled: { acked: number }): MessageBatch {
  const message = (body: unknown, index: number) => ({
    id: String(index),
    timestamp: new Date(),
    attempts: 1,
    body,
    ack: () => void settled.acked++,
    retry: () => undefined,
  });
  return {
    queue,
    messages: bodies.map(message),
    ackAll: () => undefined,
    retryAll: () => undefined,
  } as unknown as MessageBatch;
}

/** All messages in batches. The batches are created before the measurement, because in production the queue creates them. */
function batchesOf(all: readonly Envelope[], settled: { acked: number }): MessageBatch[] {
  return Array.from({ length: Math.ceil(all.length / BATCH) }, (_, nth) =>
    batchOf("bench-commands", all.slice(nth * BATCH, (nth + 1) * BATCH), settled),
  );
}

/**
 * The usual consumer without Millrace: for each message, it queries whether the message was processed, records the message and acknowledges
 * it. The work for a message is omitted.
 */
export async function plainIntake(env: EngineEnv, count: number, series: string): Promise<number> {
  const all = envelopes(count, series);
  const settled = { acked: 0 };
  const delivered = batchesOf(all, settled);
  const start = performance.now();
  for (const { messages } of delivered) {
    for (const message of messages) {
      const { idempotency_key } = message.body as Envelope;
      const done = await env.DB.prepare("SELECT 1 FROM processed WHERE id = ?1").bind(idempotency_key).first();
      if (!done) await env.DB.prepare("INSERT INTO processed (id, at) VALUES (?1, ?2)").bind(idempotency_key, Date.now()).run();
      message.ack();
    }
  }
  return report(settled.acked, count, start);
}

/** The engine's own consumer, which parses messages, computes their keys, ingests and settles them. It does not start the instances. */
export async function engineIntake(env: EngineEnv, catalog: Catalog, count: number, series: string): Promise<number> {
  const all = envelopes(count, series);
  const settled = { acked: 0 };
  const consume = dispatch(catalog);
  const withoutWork = Object.assign(Object.create(env), env, {
    EMPTY: { createBatch: async () => ({ created: [], errors: [] }) },
  }) as EngineEnv;
  const delivered = batchesOf(all, settled);
  const start = performance.now();
  for (const batch of delivered) await consume(batch, withoutWork);
  return report(settled.acked, count, start);
}

/** The columns that the acceptance of a message fills. The other columns of an instance have their defaults. */
const COLUMNS =
  "id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, queue, status, " +
  "deliveries, accepted_at, updated_at, check_at";

/** The rows of the messages without their duplicates, as one JSON list for each batch. */
export function rowsOf(count: number, series: string): string[] {
  const messages = envelopes(count, series).filter((_, index) => index % 10 !== 9);
  const now = Date.now();
  const rows = messages.map((one) => {
    const id = crypto.randomUUID().replaceAll("-", "");
    const { tenant_id, message_type, idempotency_key, correlation_id, causation_id, subject } = one;
    const names = [tenant_id, "empty", message_type, idempotency_key, correlation_id, causation_id, subject];
    return JSON.stringify([id, ...names, id + id, JSON.stringify(one), "bench-commands", "queued", 1, now, now, now + 10_000]);
  });
  return Array.from({ length: Math.ceil(count / BATCH) }, (_, nth) => `[${rows.slice(nth * 90, (nth + 1) * 90).join(",")}]`);
}

/**
 * The lower bound of the engine's consumer: D1 writes the same rows to a table with the same columns and indexes, with one statement for
 * each batch of messages.
 */
export async function insertIntake(env: EngineEnv, count: number, series: string): Promise<number> {
  const batches = rowsOf(count, series);
  const values = COLUMNS.split(", ").map((_, place) => `value->>${place}`);
  const insert = env.DB.prepare(`INSERT INTO bench_instances (${COLUMNS}) SELECT ${values.join(", ")} FROM json_each(?1)`);
  const start = performance.now();
  for (const rows of batches) await env.DB.batch([insert.bind(rows)]);
  return count / ((performance.now() - start) / 1000);
}

/** Creates a table with the columns and indexes of the engine's instances, without triggers. */
export async function createCopy(db: D1Database): Promise<void> {
  const { results } = await db
    .prepare("SELECT sql FROM sqlite_master WHERE tbl_name = 'millrace_instances' AND type IN ('table', 'index') AND sql IS NOT NULL")
    .all<{ sql: string }>();
  for (const { sql } of results) {
    const copy = sql.replaceAll("millrace_instances", "bench_instances").replace(/^CREATE \w+/, "$& IF NOT EXISTS");
    await db.prepare(copy).run();
  }
}

/** The loop of the measurement without a consumer, to measure the overhead of the loop. */
export function noIntake(count: number, series: string): number {
  const all = envelopes(count, series);
  const settled = { acked: 0 };
  for (const { messages } of batchesOf(all, settled)) for (const message of messages) message.ack();
  return settled.acked;
}

/** Messages per second since `start`. Errors: an `Error` if a message was not acknowledged. */
export function report(acked: number, count: number, start: number): number {
  if (acked !== count) throw new Error(`Only ${acked} of ${count} messages were settled.`);
  return count / ((performance.now() - start) / 1000);
}
