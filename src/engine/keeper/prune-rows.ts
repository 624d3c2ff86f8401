import type { EngineEnv } from "../contract/bindings.ts";
import { type Fragment, fragment, now, type Statement, sql } from "../contract/sql.ts";
import { query } from "../store/retry.ts";
import type { Slice } from "./rule.ts";

const ROWS = 250;
const SIGNALS_WALKED = 1000;

/** Letters that were replayed or skipped long ago. Reads the old part of an index. */
export function pruneSettledLetters(env: EngineEnv, keepMs: number): Promise<number> {
  return removeFrom(
    env,
    fragment("dead_letters"),
    sql`state IN ('replayed', 'skipped') AND captured_at <= ${now} - ${keepMs} AND coalesce(settled_at, captured_at) <= ${now} - ${keepMs}`,
  );
}

/** The audit. What the platform has not heard of yet stays, however old. Reads a table that grows with people's actions. */
export function pruneActions(env: EngineEnv, keepMs: number): Promise<number> {
  return removeFrom(env, fragment("actions"), sql`at <= ${now} - ${keepMs} AND applied_at IS NOT NULL`);
}

/** Tokens that expired long ago: until then their names explain the audit. Reads a small table. */
export function pruneTokens(env: EngineEnv, keepMs: number): Promise<number> {
  return removeFrom(env, fragment("tokens"), sql`expires_at <= ${now} - ${keepMs}`);
}

/** What became of times long ago. Reads the table. */
export async function pruneScheduleRuns(env: EngineEnv, keepMs: number): Promise<number> {
  const gone = await query(
    env.DB,
    sql`
      DELETE FROM schedule_runs WHERE (tenant_id, name, due_at, state) IN (
        SELECT tenant_id, name, due_at, state FROM schedule_runs WHERE until_at <= ${now} - ${keepMs} LIMIT ${ROWS})
      RETURNING 1 AS gone`,
  );
  return gone.length;
}

async function removeFrom(env: EngineEnv, table: Fragment, old: Statement): Promise<number> {
  const gone = await query(
    env.DB,
    sql`DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE ${old} LIMIT ${ROWS}) RETURNING 1 AS gone`,
  );
  return gone.length;
}

/** A run in doubt or asleep may come to wait for an event of long ago; one that is open for longer than this takes no event from before. */
const LONGEST_KEPT_DAYS = 400;

/**
 * Events kept for waits. One stays while an instance could still take it, now or after a retry: any of the tenant's that is older than
 * the event and not over; and while a wait holds it, because a restarted run is answered with it again. Instances that old are few,
 * so each look is short; the walk through the table is one a day.
 */
export async function pruneSignals(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  const free = sql`received_at <= ${now} - ${keepMs} AND NOT EXISTS (
    SELECT 1 FROM instances i WHERE i.tenant_id = signals.tenant_id AND i.accepted_at <= signals.received_at AND (
      (i.status NOT IN ('complete', 'skipped') AND signals.received_at > ${now} - ${LONGEST_KEPT_DAYS * 86_400_000})
      OR EXISTS (SELECT 1 FROM waits WHERE waits.instance_id = i.id AND waits.signal_id = signals.id)))`;
  const walked = await query<{ id: string; free: number }>(
    env.DB,
    sql`SELECT id, (${free}) AS free FROM signals WHERE id > ${from ?? ""} ORDER BY id LIMIT ${SIGNALS_WALKED}`,
  );
  const ids = JSON.stringify(walked.filter((row) => row.free === 1).map(({ id }) => id));
  const gone =
    ids === "[]"
      ? []
      : await query(env.DB, sql`DELETE FROM signals WHERE id IN (SELECT value FROM json_each(${ids})) AND ${free} RETURNING 1 AS gone`);
  return { removed: gone.length, next: walked.length === SIGNALS_WALKED ? (walked.at(-1)?.id ?? null) : null };
}
