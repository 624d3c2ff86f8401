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
  /** The step that failed, where the error names one. */
  readonly step: string | null;
  readonly upstreamStatus: number | null;
  /** What it has in common with others that failed for the same reason (`causeId`). */
  readonly cause: string;
  /** When its first failing attempt was; null where nobody noted that. */
  readonly firstAttemptAt: number | null;
  /** When its last one was; null for now. */
  readonly lastAttemptAt: number | null;
}

/** The states of a dead letter. An open one is moved on by an operator, once, and for good. */
export type LetterState = "open" | "replayed" | "skipped";

/** What came of the one automatic repair of a letter. */
export interface TriedRepair {
  /** As its queue's consumer names it. */
  readonly name: string;
  /** `sent`: the mended message is on its queue. `refused`: it may not be sent as it was mended. `failed`: the repair itself threw. */
  readonly outcome: "sent" | "refused" | "failed";
  /** In milliseconds since 1970. */
  readonly at: number;
  /** What it changed: dotted paths, such as `payload_inline.keyword`; at most 20. */
  readonly changed: readonly string[];
  /** Why it did not go; null when it did. */
  readonly error: string | null;
}

/** Stores dead letters; one that is stored already stays as it is, whatever became of it. `still` is asked of each row, as `l`. */
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

/** Moves an open letter on. Whether it changed a row decides the whole action: a second click finds it settled. */
export function settleLetter(id: string, state: Exclude<LetterState, "open">): Statement {
  return sql`UPDATE millrace_dead_letters SET state = ${state}, settled_at = ${now} WHERE id = ${id} AND state = 'open'`;
}

/** Asks others to look at an open letter, once: the first word holds. Whether it changed a row decides the whole action. */
export function escalateLetter(id: string, by: string, note: string): Statement {
  return sql`
    UPDATE millrace_dead_letters SET escalated_at = ${now}, escalated_by = ${by}, escalation = ${note}
    WHERE id = ${id} AND state = 'open' AND escalated_at IS NULL`;
}

/** Letters that wait for those who were asked to look at them, of all tenants: as many as are told apart, and some more. */
export function selectEscalated(limit: number): Statement {
  return sql`
    SELECT id, queue, reason, escalated_at AS at FROM millrace_dead_letters INDEXED BY millrace_dead_letters_escalated
    WHERE escalated_at IS NOT NULL AND state = 'open' LIMIT ${limit}`;
}

/** Who has asked others to look at these letters, and what was said. */
export function selectEscalations(ids: readonly string[]): Statement {
  return sql`
    SELECT id, escalated_by AS saidBy, escalation AS note FROM millrace_dead_letters
    WHERE id IN ${among(ids)} AND escalated_at IS NOT NULL`;
}

/** Those of these letters that are open and on which no repair was tried. */
export function selectUnrepaired(ids: readonly string[]): Statement {
  return sql`SELECT id FROM millrace_dead_letters WHERE id IN ${among(ids)} AND state = 'open' AND repair IS NULL`;
}

/** Writes down why the one repair of a letter did not go. Answers its id, unless another was written down before. */
export function noteRepair(id: string, repair: TriedRepair): Statement {
  return sql`
    UPDATE millrace_dead_letters SET repair = ${JSON.stringify(repair)}
      WHERE id = ${id} AND state = 'open' AND repair IS NULL RETURNING id`;
}

/** The same of a repair that goes back to its queue: the letter is settled by it. */
export function repairLetter(id: string, repair: TriedRepair): Statement {
  return sql`
    UPDATE millrace_dead_letters SET state = 'replayed', settled_at = ${now}, repair = ${JSON.stringify(repair)}
    WHERE id = ${id} AND state = 'open' AND repair IS NULL`;
}

/** Removes letters that are still open. Answers their ids. */
export function removeOpenLetters(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_dead_letters WHERE id IN ${among(ids)} AND state = 'open' RETURNING id`;
}

/** Removes the old open letters of commands that never started, before their instances: they are one case, and leave together. */
export function removeLettersOfDead(ids: readonly string[], old: Old): Statement {
  return sql`
    DELETE FROM millrace_dead_letters WHERE state = 'open' AND captured_at <= ${now} - ${old.keepMs}
      AND instance_id IN (SELECT id FROM millrace_instances WHERE id IN ${among(ids)} AND status = 'dead' AND ${isOver(old)})`;
}

/** Removes letters that were replayed or skipped long ago. Reads the old part of an index. Answers a row for each. */
export function removeSettledLetters(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_dead_letters WHERE id IN (
      SELECT id FROM millrace_dead_letters
      WHERE state IN ('replayed', 'skipped') AND captured_at <= ${now} - ${keepMs}
        AND coalesce(settled_at, captured_at) <= ${now} - ${keepMs}
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}

/** Dead letters of the last day in one state, by queue and type: of the newest, as many as are counted. */
export function selectRecentLetters(state: LetterState): Statement {
  return sql`
    SELECT queue, message_type, count(*) AS letters FROM (
      SELECT queue, message_type FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_time
      WHERE state = ${state} AND captured_at > ${now} - ${DAY_MS} ORDER BY captured_at DESC LIMIT ${MAX_COUNTED})
    GROUP BY queue, message_type`;
}

const DAY_MS = 86_400_000;
