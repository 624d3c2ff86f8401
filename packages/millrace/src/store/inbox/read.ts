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

/** The operator's answers for an instance that no attempt has used since. */
export function selectResolved(instanceId: string): Statement {
  return sql`SELECT step, item, generation, state FROM millrace_inbox WHERE instance_id = ${instanceId} AND token = 'operator'`;
}

/** Maximum characters of an output that is read with all entries: ten thousand of them fit into one result. */
const SMALL_CHARACTERS = 1024;

/**
 * All entries of an instance, newest generation last, without their outputs. Small outputs of inline steps are included, because every
 * later replay needs them.
 */
export function selectEntries(instanceId: string): Statement {
  return sql`
    SELECT ${SEEN}, updated_at,
      CASE WHEN ended_at IS NULL THEN NULL WHEN output IS NULL THEN '' WHEN length(output) <= ${SMALL_CHARACTERS} THEN output END AS small
    FROM millrace_inbox WHERE instance_id = ${instanceId} ORDER BY generation`;
}

/** Selects the output of one inbox entry. */
export function selectOutput(key: EntryKey): Statement {
  return sql`SELECT output FROM millrace_inbox WHERE ${isEntry(key)}`;
}

/**
 * Selects the newest generation of a key, starting at the given generation. Earlier generations are irrelevant, because their effects
 * happened as well.
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

/** Returns a row if the instance has inline steps, which the platform has no record of. */
export function selectLean(instanceId: string): Statement {
  return sql`SELECT 1 FROM millrace_inbox WHERE instance_id = ${instanceId} AND began_at IS NOT NULL LIMIT 1`;
}

/** The condition that a step, given by an SQL expression, has no entry, or one that failed or was undone. */
export function hasNoOutcome(instanceId: string, label: Fragment): Statement {
  return sql`
    coalesce((SELECT state FROM millrace_inbox
      WHERE instance_id = ${instanceId} AND ${ENTRY_LABEL} = ${label} ORDER BY generation DESC LIMIT 1),
      'failed') = 'failed'`;
}

/** The condition of entries with effects that happened, or may have, and that have an undo. */
export function canBeTakenBack(instanceId: string): Statement {
  return sql`instance_id = ${instanceId} AND undoable = 1 AND position >= 0 AND state IN ('done', 'claimed', 'confirmed')`;
}
