import type { EntryKey } from "../contract/ids.ts";
import { now, type RowStatement, type Statement, sql } from "../contract/sql.ts";

/**
 * The last attempt at a `once` effect hangs, and nobody waits for it: what comes of it is unknown. Its token stays, so that it may still say
 * so itself, before a person does.
 */
export function doubtOpen(key: Omit<EntryKey, "generation">, error: string): Statement {
  return sql`
    UPDATE inbox SET state = 'in_doubt', error = ${error}, updated_at = ${now}
    WHERE instance_id = ${key.instanceId} AND step = ${key.step} AND item = ${key.item} AND class = 'once' AND state = 'claimed'`;
}

/**
 * The next run waits for a person where a doubt is left: from now on the attempt that hangs cannot say so itself any more, because nobody
 * would tell that run. Behind the statement that carries the action out.
 */
export function leaveDoubts(instanceId: string, actionId: string): Statement {
  return sql`
    UPDATE inbox SET epoch = epoch + 1
    WHERE instance_id = ${instanceId} AND state = 'in_doubt' AND EXISTS (SELECT 1 FROM actions WHERE id = ${actionId} AND result = 'applied')`;
}

/** The instance waits for a person, if one of its effects is in doubt. */
export function markInDoubt(instanceId: string): Statement {
  return sql`
    UPDATE instances SET status = 'in_doubt', updated_at = ${now}
    WHERE id = ${instanceId} AND status IN ('accepted', 'queued', 'running', 'waiting')
      AND EXISTS (SELECT 1 FROM inbox WHERE instance_id = ${instanceId} AND state = 'in_doubt')`;
}

/** The instance waits for nobody any more, if none of its effects is in doubt. */
export function markResolved(id: string): RowStatement {
  return { text: MARK_RESOLVED, row: { id } };
}

const MARK_RESOLVED = `
  UPDATE instances SET status = 'running', updated_at = ${now.fragment}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status = 'in_doubt'
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.instance_id = instances.id AND inbox.state = 'in_doubt')`;
