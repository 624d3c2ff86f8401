import type { EntryKey } from "../../contract/ids.ts";
import { type Fragment, fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { ENTRY_LABEL, type EntryState, isEntry } from "./entry.ts";

const SEEN = fragment(`step, item, generation, position, after, caught, state, epoch, token, repeats, undoable, began_at, ended_at,
    lease_until - ${now.fragment} AS lease_left_ms, output_ref, error`);

/** An entry of which a person has said what became of its effect. */
export interface ResolvedEntry {
  step: string;
  item: string;
  generation: number;
  state: EntryState;
}

/** What people have said of an instance's effects, as far as no attempt has taken the entry since. */
export function selectResolved(instanceId: string): Statement {
  return sql`SELECT step, item, generation, state FROM millrace_inbox WHERE instance_id = ${instanceId} AND token = 'operator'`;
}

/** Characters of an output that is read with all entries: ten thousand of them fit into one answer. */
const SMALL_CHARACTERS = 1024;

/**
 * All entries of an instance, newest generation last, without their outputs; but of steps that a pass took itself with the small ones,
 * because every later pass asks for those.
 */
export function selectEntries(instanceId: string): Statement {
  return sql`
    SELECT ${SEEN}, updated_at,
      CASE WHEN ended_at IS NULL THEN NULL WHEN output IS NULL THEN '' WHEN length(output) <= ${SMALL_CHARACTERS} THEN output END AS small
    FROM millrace_inbox WHERE instance_id = ${instanceId} ORDER BY generation`;
}

/** What one entry put out. */
export function selectOutput(key: EntryKey): Statement {
  return sql`SELECT output FROM millrace_inbox WHERE ${isEntry(key)}`;
}

/**
 * The truth about one key: its newest generation, from this one on. One before says nothing of it: what is done again was done then too.
 */
export function selectEntry({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`
    SELECT ${SEEN}, output
    FROM millrace_inbox WHERE instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation >= ${generation}
    ORDER BY generation DESC LIMIT 1`;
}

/** The condition that an effect of this instance may have happened, or not, and that a person has to say which. */
export function hasDoubt(instanceId: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_inbox WHERE instance_id = ${instanceId} AND state = 'in_doubt')`;
}

/** Whether passes of an instance take steps themselves, of which the platform knows nothing: a row where one has. */
export function selectLean(instanceId: string): Statement {
  return sql`SELECT 1 FROM millrace_inbox WHERE instance_id = ${instanceId} AND began_at IS NOT NULL LIMIT 1`;
}

/** The condition that the step which an expression names has nothing on record, or only that it did not happen, or was taken back. */
export function hasNoOutcome(instanceId: string, label: Fragment): Statement {
  return sql`
    coalesce((SELECT state FROM millrace_inbox
      WHERE instance_id = ${instanceId} AND ${ENTRY_LABEL} = ${label} ORDER BY generation DESC LIMIT 1),
      'failed') = 'failed'`;
}

/** The condition of entries whose effects happened, or may have, and that the code which did them can take back. */
export function canBeTakenBack(instanceId: string): Statement {
  return sql`instance_id = ${instanceId} AND undoable = 1 AND position >= 0 AND state IN ('done', 'claimed', 'confirmed')`;
}
