import { among, type Fragment, type Statement, sql } from "../../contract/sql.ts";
import { isPruned } from "../tombstones.ts";
import { type InstanceStatus, OVER } from "./status.ts";

/**
 * The identity of a message: the id of its instance, and a fingerprint of the payload. The id is derived from tenant, workflow and
 * idempotency key; the fingerprint from the payload. Two messages with the same id may have different payloads: the row of that id decides
 * which one was accepted. Therefore acceptance always compares both the id and the fingerprint.
 */
export interface Identity {
  readonly id: string;
  readonly fingerprint: string;
}

/** The condition that a key is known, including pruned ones: a new message with it is a repeat, or refused. */
export function isKnown({ id }: { id: string | Fragment }): Statement {
  return sql`(EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id}) OR ${isPruned(id)})`;
}

/** The condition that an idempotency key belongs to a message with another payload. */
export function isTaken({ id, fingerprint }: Identity): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id} AND fingerprint <> ${fingerprint})
      OR EXISTS (SELECT 1 FROM millrace_tombstones WHERE id = unhex(${id}) AND fingerprint <> unhex(${fingerprint})))`;
}

/** The state of the instance with an idempotency key. */
export interface KeyHolder {
  /** `pruned`: retention has removed the row, and its key is kept. */
  status: InstanceStatus | "pruned";
  /** The due time of a delayed command; null without a delay, and after the instance's end. */
  due_at: number | null;
}

/** Selects the state of the instances with these idempotency keys, including pruned instances. */
export function selectKnown(ids: readonly string[]): Statement {
  return sql`
    SELECT id, fingerprint, status, correlation_id, iif(status IN ${OVER}, NULL, due_at) AS due_at FROM millrace_instances
      WHERE id IN ${among(ids)}
    UNION ALL
    SELECT lower(hex(id)), lower(hex(fingerprint)), 'pruned', NULL, NULL FROM millrace_tombstones
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}
