import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import { rowChunks, type Statement } from "../contract/sql.ts";
import { batch as atomic, type Row } from "../store/retry.ts";
import { type Acceptance, type AcceptedRow, confirm, takeIn } from "./accept.ts";
import { captureReusedKeys, type DeadLetter, insertDeadLetters } from "./capture.ts";

/** What became of a batch's keys. */
export interface Taken {
  /** Still to be created on the platform: new, or taken in by an earlier delivery that may have died before it created anything. */
  mustStart(id: string): boolean;
  outcomeOf(id: string): "started" | "duplicate" | "captured";
}

/** Takes a whole batch in by one atomic write: instances, dead letters for what cannot become one, and the confirmation of what a step emitted. */
export async function takeBatchIn(
  env: EngineEnv,
  queue: QueueDefinition,
  batch: { instances: readonly Acceptance[]; refused: readonly DeadLetter[]; confirmed: readonly Envelope[]; also?: readonly Statement[] },
): Promise<Taken & { also: Row[][] }> {
  const instances = rowChunks(batch.instances);
  const refused = rowChunks(batch.refused);
  const also = batch.also ?? [];
  const answers = await atomic(env.DB, [...instances.map(takeIn), ...refused.map(insertDeadLetters), ...confirm(batch.confirmed), ...also]);
  const taken = new Map((answers.splice(0, instances.length).flat() as unknown as AcceptedRow[]).map((row) => [row.id, row]));
  const captured = await captureReused(
    env,
    queue,
    batch.instances.filter(({ id }) => !taken.has(id)),
  );
  return {
    mustStart: (id) => taken.get(id)?.status === "queued",
    outcomeOf: (id) => (captured.has(id) ? "captured" : taken.get(id)?.deliveries === 1 ? "started" : "duplicate"),
    also: answers.slice(answers.length - also.length),
  };
}

/** Captures those whose key another payload has taken; the other keys that were not answered are pruned ones, long done. Asked only when there are any, so that the usual batch does not pay for it. */
export async function captureReused(env: EngineEnv, queue: QueueDefinition, unanswered: readonly Acceptance[]): Promise<Set<unknown>> {
  if (unanswered.length === 0) return new Set();
  const answers = await atomic(
    env.DB,
    rowChunks(unanswered).map((rows) => captureReusedKeys(queue.name, rows)),
  );
  return new Set(answers.flat().map((row) => row.instance_id));
}
