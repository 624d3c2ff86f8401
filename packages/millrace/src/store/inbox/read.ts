import type { EntryKey } from "../../contract/ids.ts";
import { type Fragment, fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { ENTRY_LABEL, type EntryState, isEntry } from "./entry.ts";

const SEEN = fragment(`step, item, generation, position, after, caught, state, epoch, token, repeats, undoable, began_at, ended_at,
    lease_until - ${now.fragment} AS lease_left_ms, output_ref, error`);

/** An inbox entry with an operator's answer. */
export interface ResolvedEntry {
  step: string;
  item: string;
  generation: number;
  state: EntryState;
}

/** Selects the operator's answers for an instance that no later attempt has used. */
export function selectResolved(instanceId: string): Statement {
  return sql`SELECT step, item, generation, state FROM millrace_inbox WHERE instance_id = ${instanceId} AND token = 'operator'`;
}

/**
 * Maximum count of characters of an output that is read together with all entries. Ten thousand outputs of the maximum size fit into one
 * result.
 */
const SMALL_CHARACTERS = 1024;

/**
 * Selects all entries of an instance without their outputs; the newest generation of each key comes last. Only small outputs of inline
 * steps are included, because every later replay needs these outputs.
 */
export function selectEntries(instanceId: string): Statement {
  return sql`
    SELECT ${SEEN}, updated_at,
      CASE WHEN ended_at IS NULL THEN NULL WHEN output IS NULL THEN '' WHEN length(output) <= ${SMALL_CHARACTERS} THEN output END AS small
    FROM millrace_inbox WHERE instance_id = ${instanceId} ORDER BY generation`;
}

/** Selects all entries of an instance with outputs of at most `most` characters; the newest generation of each key comes last. */
export function selectWhole(instanceId: string, most: number): Statement {
  return sql`
    SELECT ${SEEN}, updated_at, class, iif(length(output) <= ${most}, output, NULL) AS output, length(output) > ${most} AS omitted
    FROM millrace_inbox WHERE instance_id = ${instanceId} ORDER BY generation`;
}

/** Selects the output of one inbox entry. */
export function selectOutput(key: EntryKey): Statement {
  return sql`SELECT output FROM millrace_inbox WHERE ${isEntry(key)}`;
}

/**
 * Selects the newest generation of a key, starting at the given generation. Earlier generations are not needed, because their effects
 * happened too.
 */
export function selectEntry({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`
    SELECT ${SEEN}, output
    FROM millrace_inbox WHERE instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation >= ${generation}
    ORDER BY generation DESC LIMIT 1`;
}

/** The condition that an instance has an unknown outcome. */
export function hasDoubt(instanceId: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_inbox WHERE instance_id = ${instanceId} AND state = 'in_doubt')`;
}

/** Returns a row if the instance has inline steps. The platform has no record of an inline step. */
export function selectInline(instanceId: string): Statement {
  return sql`SELECT 1 FROM millrace_inbox WHERE instance_id = ${instanceId} AND began_at IS NOT NULL LIMIT 1`;
}

/** The condition that a step has no entry, or that its entry failed or was undone. The step is an SQL expression. */
export function hasNoOutcome(instanceId: string, label: Fragment): Statement {
  return sql`
    coalesce((SELECT state FROM millrace_inbox
      WHERE instance_id = ${instanceId} AND ${ENTRY_LABEL} = ${label} ORDER BY generation DESC LIMIT 1),
      'failed') = 'failed'`;
}

/** The condition that an entry's effect has an undo, and has happened or may have happened. */
export function canBeTakenBack(instanceId: string): Statement {
  return sql`instance_id = ${instanceId} AND undoable = 1 AND position >= 0 AND state IN ('done', 'claimed', 'confirmed')`;
}

export function removeEntries(whose: Statement): Statement {
  return sql`DELETE FROM millrace_inbox WHERE ${whose}`;
}
