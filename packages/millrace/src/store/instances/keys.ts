import { among, type Fragment, type Statement, sql } from "../../contract/sql.ts";
import { isPruned, isPrunedOther } from "../tombstones.ts";
import { type InstanceStatus, OVER, WAITS_FOR_SLOT } from "./status.ts";

/**
 * The identity of a message: the id of its instance, and a fingerprint of the payload. The id is derived from tenant, workflow and
 * idempotency key; the fingerprint from the payload. Two messages with the same id may have different payloads, and the instance's row
 * shows which message was accepted. Therefore acceptance always compares both the id and the fingerprint.
 */
export interface Identity {
  readonly id: string;
  readonly fingerprint: string;
}

/**
 * The condition that a key belongs to an existing or pruned instance. A new message with the key of an existing or pruned instance is a
 * repeat, or is refused.
 */
export function isKnown({ id }: { id: string | Fragment }): Statement {
  return sql`(EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id}) OR ${isPruned(id)})`;
}

/** The condition that an idempotency key belongs to a message with another payload. */
export function isTaken({ id, fingerprint }: Identity): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id} AND fingerprint <> ${fingerprint})
      OR ${isPrunedOther(id, fingerprint)})`;
}

/** The state of the instance with an idempotency key. */
export interface KeyHolder {
  /** `pruned`: retention has removed the instance's row, and its key is still stored. */
  status: InstanceStatus | "pruned";
  /** The due time of a delayed command; null if the command has no delay or its instance has ended. */
  due_at: number | null;
}

/** The row of an idempotency key. */
export interface KnownRow extends Identity, KeyHolder {
  correlation_id: string | null;
  /** Flag (0 or 1): 1 while the command waits for a slot of its workflow's `concurrency`. */
  waits?: number;
  /**
   * Flag (0 or 1) of a row that the present write created: 1 if the command's workflow or queue is paused, so that it must not start.
   * Undefined for an earlier row.
   */
  held?: number;
}

/** Selects the state of each instance with one of these idempotency keys, including pruned instances. */
export function selectKnown(ids: readonly string[]): Statement {
  return sql`
    SELECT id, fingerprint, status, correlation_id, iif(status IN ${OVER}, NULL, due_at) AS due_at,
      ${WAITS_FOR_SLOT} AS waits
    FROM millrace_instances
      WHERE id IN ${among(ids)}
    UNION ALL
    SELECT lower(hex(id)), lower(hex(fingerprint)), 'pruned', NULL, NULL, 0 FROM millrace_tombstones
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}
