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
