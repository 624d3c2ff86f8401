import { among, type Fragment, type Statement, sql } from "../../contract/sql.ts";
import { isPruned } from "../tombstones.ts";
import { type InstanceStatus, OVER } from "./status.ts";

/**
 * What a message asks for under which name. The instance's id says who wants it, of whom, under which key; the fingerprint says what.
 * Two messages of one id may ask for different things: the row of that id decides which of them was accepted. So nothing is looked up by an
 * id alone where messages are taken in, but the row itself.
 */
export interface Identity {
  readonly id: string;
  readonly fingerprint: string;
}

/** The condition that a key is known, also a pruned one's: what is accepted under it is a repeat, or refused. */
export function isKnown({ id }: { id: string | Fragment }): Statement {
  return sql`(EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id}) OR ${isPruned(id)})`;
}

/** The condition that a key has gone to other work. */
export function isTaken({ id, fingerprint }: Identity): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id} AND fingerprint <> ${fingerprint})
      OR EXISTS (SELECT 1 FROM millrace_tombstones WHERE id = unhex(${id}) AND fingerprint <> unhex(${fingerprint})))`;
}

/** The state of the instance that has a key. */
export interface KeyHolder {
  /** `pruned`: the row was removed by its age, and its key is kept. */
  status: InstanceStatus | "pruned";
  /** When a delayed command is due; null without a delay, and where the instance is over. */
  due_at: number | null;
}

/** The state of keys, also of pruned ones. */
export function selectKnown(ids: readonly string[]): Statement {
  return sql`
    SELECT id, fingerprint, status, correlation_id, iif(status IN ${OVER}, NULL, due_at) AS due_at FROM millrace_instances
      WHERE id IN ${among(ids)}
    UNION ALL
    SELECT lower(hex(id)), lower(hex(fingerprint)), 'pruned', NULL, NULL FROM millrace_tombstones
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}
