import type { Issue } from "../contract/errors.ts";
import { among, now, type Statement, sql } from "../contract/sql.ts";
import { MAX_COUNTED } from "./health.ts";
import { isOver, type Old } from "./instances/remove.ts";

/** A message nobody will deliver again, with everything known about why. */
export interface DeadLetter {
  readonly id: string;
  readonly queue: string;
  /** The message as it came, as JSON text. */
  readonly body: string;
  /** Null when it names no tenant that there could be: operators who see what is unattributed see it. */
  readonly tenantId: string | null;
  readonly messageType: string | null;
  readonly idempotencyKey: string | null;
  readonly correlationId: string | null;
  readonly reason: string;
  readonly error: string;
  readonly issues: readonly Issue[] | null;
  readonly attempts: number;
  readonly firstAt: number;
  readonly instanceId: string | null;
}

/** The states of a dead letter. An open one is moved on by an operator, once, and for good. */
export type LetterState = "open" | "replayed" | "skipped";

/** Stores dead letters; one that is stored already stays as it is, whatever became of it. `still` is asked of each row, as `l`. */
export function insertDeadLetters(rows: string, still: Statement = sql`true`): Statement {
  return sql`
    INSERT INTO dead_letters (id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id, body, reason, issues,
      error, attempts, first_at, captured_at)
    SELECT l.value->>'id', l.value->>'tenantId', l.value->>'queue', l.value->>'messageType', l.value->>'idempotencyKey',
      l.value->>'correlationId', l.value->>'instanceId', l.value->>'body', l.value->>'reason', l.value->'issues', l.value->>'error',
      l.value->>'attempts', l.value->>'firstAt', ${now}
    FROM json_each(${rows}) l WHERE ${still}
    ON CONFLICT (id) DO NOTHING`;
}

/** Moves an open letter on. Whether it changed a row decides the whole action: a second click finds it settled. */
export function settleLetter(id: string, state: Exclude<LetterState, "open">): Statement {
  return sql`UPDATE dead_letters SET state = ${state}, settled_at = ${now} WHERE id = ${id} AND state = 'open'`;
}

/** Removes letters that are still open. Answers their ids. */
export function removeOpenLetters(ids: readonly string[]): Statement {
  return sql`DELETE FROM dead_letters WHERE id IN ${among(ids)} AND state = 'open' RETURNING id`;
}

/** Removes the old open letters of commands that never started, before their instances: they are one case, and leave together. */
export function removeLettersOfDead(ids: readonly string[], old: Old): Statement {
  return sql`
    DELETE FROM dead_letters WHERE state = 'open' AND captured_at <= ${now} - ${old.keepMs}
      AND instance_id IN (SELECT id FROM instances WHERE id IN ${among(ids)} AND status = 'dead' AND ${isOver(old)})`;
}

/** Removes letters that were replayed or skipped long ago. Reads the old part of an index. Answers a row for each. */
export function removeSettledLetters(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM dead_letters WHERE id IN (
      SELECT id FROM dead_letters
      WHERE state IN ('replayed', 'skipped') AND captured_at <= ${now} - ${keepMs}
        AND coalesce(settled_at, captured_at) <= ${now} - ${keepMs}
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}

/** Dead letters of the last day in one state, by queue and type: of the newest, as many as are counted. */
export function selectRecentLetters(state: LetterState): Statement {
  return sql`
    SELECT queue, message_type, count(*) AS letters FROM (
      SELECT queue, message_type FROM dead_letters INDEXED BY dead_letters_by_time
      WHERE state = ${state} AND captured_at > ${now} - ${DAY_MS} ORDER BY captured_at DESC LIMIT ${MAX_COUNTED})
    GROUP BY queue, message_type`;
}

const DAY_MS = 86_400_000;
