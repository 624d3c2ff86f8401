import type { EngineEnv } from "../contract/bindings.ts";
import { causeId } from "../contract/cause.ts";
import { digest } from "../contract/ids.ts";
import { logLine } from "../contract/log-line.ts";
import { countLetters } from "../observe/metrics/runs.ts";
import { cellOf } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { type DeadLetter, insertDeadLetters } from "../store/dead-letters.ts";
import type { PullLetter } from "./definition.ts";
import type { PullContentType } from "./message.ts";

const PULL = "pull:";

/** The name of the pull queue in a dead letter's queue name; undefined for a queue that is no pull queue. */
export function pullIn(queue: string): string | undefined {
  return queue.startsWith(PULL) ? queue.slice(PULL.length) : undefined;
}

/** The stored form of a pull queue's message in a dead letter: the message as sent, with bytes in base64. */
interface PulledBody {
  content_type: PullContentType;
  body: unknown;
}

const WHY = {
  exhausted: "The message was returned, or its lease expired, more often than the queue's retries allow.",
  expired: "The message was in the queue longer than the queue's retention.",
} as const;

/** Stores a pull queue's dead letter with the engine's dead letters. A repeated hand-off writes the same row. */
export async function keepLetter(letter: PullLetter, env: EngineEnv): Promise<void> {
  const { tenant: tenantId, id, body, contentType, reason, attempts, sentAt: firstAt } = letter;
  const queue = PULL + letter.queue;
  const kept: PulledBody = { content_type: contentType, body: body instanceof ArrayBuffer ? Buffer.from(body).toString("base64") : body };
  const row: DeadLetter = {
    ...{ id: digest("dead-letter", queue, tenantId, id), queue, tenantId, body: JSON.stringify(kept) },
    ...{ messageType: null, idempotencyKey: null, correlationId: null, instanceId: null, issues: null },
    ...{ reason, error: WHY[reason], attempts, firstAt, step: null, upstreamStatus: null, firstAttemptAt: null, lastAttemptAt: null },
    cause: causeId({ place: queue, code: reason, message: WHY[reason] }),
  };
  await query((await cellOf(env, tenantId)).DB, insertDeadLetters(JSON.stringify([row])));
  countLetters(env, [row]);
  logLine("warn", { log: "dead_letter", queue, dead_letter: row.id, code: reason });
}

/** The message of a pull queue's dead letter, in the form that `send` accepts. */
export function pulledMessage(letterBody: unknown): { body: unknown; contentType: PullContentType } {
  const { content_type: contentType, body } = letterBody as PulledBody;
  return { contentType, body: contentType === "bytes" ? Buffer.from(String(body), "base64") : body };
}
