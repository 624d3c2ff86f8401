import type { Issue } from "../contract/errors.ts";
import { among, now, type Statement, sql } from "../contract/sql.ts";
import { MAX_COUNTED } from "./health.ts";
import { andNoted, isOver, type Old } from "./instances/remove.ts";

/** An undeliverable message, with its error. */
export interface DeadLetter {
  readonly id: string;
  readonly queue: string;
  /** The received message, as JSON text. */
  readonly body: string;
  /**
   * The tenant of the message; null for an invalid or missing tenant. Only operators with the scope `unattributed` see such a dead letter.
   */
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
  /** The step that failed, if the error names a step. */
  readonly step: string | null;
  readonly upstreamStatus: number | null;
  /** The id of the dead letter's cause (`causeId`). Two failures for the same reason have the same cause. */
  readonly cause: string;
  /** Time of the first failed attempt; null if unknown. */
  readonly firstAttemptAt: number | null;
  /** Time of the last failed attempt; null means the present time. */
  readonly lastAttemptAt: number | null;
}

/** The state of a dead letter. An open dead letter is replayed or skipped once, and then its state is final. */
export type LetterState = "open" | "replayed" | "skipped";

/** The result of the automatic repair of a dead letter. At most one repair is tried for each dead letter. */
export interface TriedRepair {
  /** The name of the repair in the definition of the queue's consumer. */
  readonly name: string;
  /**
   * `sent`: the repaired message was sent to its queue. `refused`: the repaired message is invalid. `failed`: the repair threw an error.
   */
  readonly outcome: "sent" | "refused" | "failed";
  /** The time of the repair, in milliseconds since 1970. */
  readonly at: number;
  /** The changed fields of the message: dotted paths, such as `payload_inline.keyword`; at most 20. */
  readonly changed: readonly string[];
  /** The reason for `refused` or `failed`; null for `sent`. */
  readonly error: string | null;
}

/** Stores dead letters. An existing dead letter remains unchanged, whatever its state. `still` is a condition on each row `l`. */
export function insertDeadLetters(rows: string, still: Statement = sql`true`): Statement {
  return sql`
    INSERT INTO millrace_dead_letters (id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id, body, reason,
      issues,
      error, attempts, first_at, captured_at, step, upstream_status, cause, first_attempt_at, last_attempt_at)
    SELECT l.value->>'id', l.value->>'tenantId', l.value->>'queue', l.value->>'messageType', l.value->>'idempotencyKey',
      l.value->>'correlationId', l.value->>'instanceId', l.value->>'body', l.value->>'reason', l.value->'issues', l.value->>'error',
      l.value->>'attempts', l.value->>'firstAt', ${now}, l.value->>'step', l.value->>'upstreamStatus', l.value->>'cause',
      l.value->>'firstAttemptAt', coalesce(l.value->>'lastAttemptAt', ${now})
    FROM json_each(${rows}) l WHERE ${still}
    ON CONFLICT (id) DO NOTHING`;
}

/** Settles an open dead letter. A dead letter is settled only once, so a second action has no effect. */
export function settleLetter(id: string, state: Exclude<LetterState, "open">): Statement {
  return sql`UPDATE millrace_dead_letters SET state = ${state}, settled_at = ${now} WHERE id = ${id} AND state = 'open'`;
}

/** Escalates an open dead letter. If the dead letter is already escalated, nothing changes and its note remains. */
export function escalateLetter(id: string, by: string, note: string): Statement {
  return sql`
    UPDATE millrace_dead_letters SET escalated_at = ${now}, escalated_by = ${by}, escalation = ${note}
    WHERE id = ${id} AND state = 'open' AND escalated_at IS NULL`;
}

/** Selects open escalated dead letters of all tenants, up to a limit. */
export function selectEscalated(limit: number): Statement {
  return sql`
    SELECT id, queue, reason, escalated_at AS at FROM millrace_dead_letters INDEXED BY millrace_dead_letters_escalated
    WHERE escalated_at IS NOT NULL AND state = 'open' LIMIT ${limit}`;
}

/** Selects the operator and the note of escalated dead letters. */
export function selectEscalations(ids: readonly string[]): Statement {
  return sql`
    SELECT id, escalated_by AS saidBy, escalation AS note FROM millrace_dead_letters
    WHERE id IN ${among(ids)} AND escalated_at IS NOT NULL`;
}

/** Selects the open dead letters with the given ids for which no repair was tried. */
export function selectUnrepaired(ids: readonly string[]): Statement {
  return sql`SELECT id FROM millrace_dead_letters WHERE id IN ${among(ids)} AND +state = 'open' AND repair IS NULL`;
}

/** Records a failed repair. The statement returns the dead letter's id, unless a repair was recorded before. */
export function noteRepair(id: string, repair: TriedRepair): Statement {
  return sql`
    UPDATE millrace_dead_letters SET repair = ${JSON.stringify(repair)}
      WHERE id = ${id} AND state = 'open' AND repair IS NULL RETURNING id`;
}

/** Records a successful repair, which settles the dead letter. */
export function repairLetter(id: string, repair: TriedRepair): Statement {
  return sql`
    UPDATE millrace_dead_letters SET state = 'replayed', settled_at = ${now}, repair = ${JSON.stringify(repair)}
    WHERE id = ${id} AND state = 'open' AND repair IS NULL`;
}

/** Removes dead letters that are still open. The statement returns the ids of the removed dead letters. */
export function removeOpenLetters(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_dead_letters WHERE id IN ${among(ids)} AND +state = 'open' RETURNING id`;
}

/** Removes old open dead letters of commands that never started. The batch also removes the instances of the commands. */
export function removeLettersOfDead(ids: readonly string[], old: Old): Statement {
  return sql`
    DELETE FROM millrace_dead_letters INDEXED BY millrace_dead_letters_of_instance
    WHERE state = 'open' AND captured_at <= ${now} - ${old.keepMs}
      AND instance_id IN (SELECT id FROM millrace_instances WHERE id IN ${among(ids)} AND status = 'dead' AND ${isOver(old)} ${andNoted(old)})`;
}

/**
 * Removes dead letters that were replayed or skipped long ago. The statement finds the dead letters in an index and reads no other index
 * entries. The statement returns a row for each removed row.
 */
export function removeSettledLetters(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_dead_letters WHERE id IN (
      SELECT id FROM millrace_dead_letters
      WHERE state IN ('replayed', 'skipped') AND captured_at <= ${now} - ${keepMs}
        AND coalesce(settled_at, captured_at) <= ${now} - ${keepMs}
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}

/**
 * Counts the dead letters of the last day in the given state, by queue and type. Only the newest dead letters up to a limit are counted.
 */
export function selectRecentLetters(state: LetterState): Statement {
  return sql`
    SELECT queue, message_type, count(*) AS letters FROM (
      SELECT queue, message_type FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_time
      WHERE state = ${state} AND captured_at > ${now} - ${DAY_MS} ORDER BY captured_at DESC LIMIT ${MAX_COUNTED})
    GROUP BY queue, message_type`;
}

const DAY_MS = 86_400_000;
