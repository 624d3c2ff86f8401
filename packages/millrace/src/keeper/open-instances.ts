import type { EngineEnv } from "../contract/bindings.ts";
import type { Elsewhere } from "../contract/elsewhere.ts";
import type { Envelope } from "../contract/envelope.ts";
import { among, fragment, now, type Statement, sql } from "../contract/sql.ts";
import { KEEPER_PATIENCE_MS } from "../contract/within.ts";
import { query } from "../store/d1/retry.ts";
import { timesBrokenOff } from "../store/instances/look.ts";
import { AT_REST, GOING_ON, type InstanceStatus, WAITS_FOR_SLOT } from "../store/instances/status.ts";
import { TENANTS_TO_START, TURN } from "../store/instances/to-start.ts";
import { pauseOf } from "../store/pauses.ts";

/** An instance that is due for a check. */
export interface Open {
  id: string;
  workflow: string;
  tenant_id: string;
  subject: string;
  correlation_id: string;
  status: InstanceStatus;
  queue: string | null;
  undo: string | null;
  version: number;
  /** The parent of a child; null for any other instance. */
  parent: string | null;
  run: number;
  accepted_at: number;
  check_at: number;
  overdue_ms: number;
  age_ms: number;
  /** Milliseconds since the last change of the instance's status. */
  since_ms: number;
  /** 1 when an accepted operator action is not yet applied on the platform. Then the keeper does not change the instance. */
  promised: number;
  /** The keeper's restarts of the present run after infrastructure errors of the platform. */
  broken_off: number;
  /** 1 when the instance's status is `in_doubt`, but no effect has an unknown outcome. */
  undoubted: number;
  /** 1 when an effect has an unknown outcome, but the instance's status is not `in_doubt`. */
  doubted: number;
  /** 1 while the instance's workflow or queue is paused. */
  held: number;
  /** 1 while the instance needs a slot of its workflow's `concurrency`, also if an operator has paused it before its start. */
  waits: number;
  /** Time until a delayed command is due. */
  early_ms: number;
  /** True if another tenant has more due instances than its share, and this tenant has not. */
  overtakes: boolean;
}

/** Maximum number of instances checked in one portion. */
export const ROWS = 200;
const MOST = fragment(String(ROWS));

type Line = "unseen" | "seen";

/** The due instances of a turn, without instances of other Workers' workflows. */
function dueOf(line: Line, { workflows }: Elsewhere): Statement {
  return sql`millrace_instances INDEXED BY millrace_instances_to_check
    WHERE seen = ${line === "seen" ? 1 : 0} AND ${TURN} = turn AND check_at <= ${now} AND workflow NOT IN ${among([...workflows])}`;
}

/** The turns that share a portion: the tenants with instances to start, or a single turn for all other instances. */
function turnsOf(line: Line, elsewhere: Elsewhere): Statement {
  return line === "seen"
    ? sql`'' AS turn`
    : sql`turn FROM tenants WHERE at <= ${now} AND EXISTS (SELECT 1 FROM ${dueOf(line, elsewhere)}) ORDER BY at LIMIT ${MOST}`;
}

/**
 * Due instances of one of the keeper's two groups. Each tenant gets an equal share of the instances without a recorded start, so that a
 * tenant's burst does not delay other tenants. All other instances are in the order of time. `more`: true if a share was too small.
 */
export async function dueInstances(env: EngineEnv, line: Line, elsewhere: Elsewhere): Promise<{ rows: Open[]; more: boolean }> {
  const rows = await query<Omit<Open, "overtakes"> & { turn: string; turns: number }>(
    env.DB,
    sql`
      WITH RECURSIVE ${TENANTS_TO_START}, turns AS MATERIALIZED (SELECT ${turnsOf(line, elsewhere)})
      SELECT id, workflow, tenant_id, subject, correlation_id, status, queue, undo, parent, version, run, accepted_at, check_at,
        ${now} - check_at AS overdue_ms, ${now} - accepted_at AS age_ms, ${now} - updated_at AS since_ms, ${timesBrokenOff} AS broken_off,
        EXISTS (SELECT 1 FROM millrace_actions WHERE applied_at IS NULL
          AND millrace_actions.instance_id = millrace_instances.id) AS promised,
        status = 'in_doubt' AND NOT EXISTS (
          SELECT 1 FROM millrace_inbox WHERE millrace_inbox.instance_id = millrace_instances.id
            AND millrace_inbox.state = 'in_doubt') AS undoubted,
        status IN ${GOING_ON} AND EXISTS (
          SELECT 1 FROM millrace_inbox WHERE millrace_inbox.instance_id = millrace_instances.id
            AND millrace_inbox.state = 'in_doubt') AS doubted,
        ${pauseOf("1")} IS NOT NULL AS held,
        ${WAITS_FOR_SLOT} OR (status = 'paused' AND slot_turn IS NOT NULL) AS waits,
        iif(status = 'accepted', max(0, coalesce(due_at, 0) - ${now}), 0) AS early_ms,
        turn, (SELECT count(*) FROM turns) AS turns
      FROM turns CROSS JOIN millrace_instances ON millrace_instances.rowid IN (
        SELECT rowid FROM ${dueOf(line, elsewhere)} ORDER BY check_at LIMIT ${MOST} / (SELECT count(*) FROM turns))
      ORDER BY check_at`,
  );
  const shares = Map.groupBy(rows, ({ turn }) => turn);
  const bursts = new Set(rows.filter(({ turn, turns }) => (shares.get(turn)?.length ?? 0) >= Math.floor(ROWS / turns)));
  const more = bursts.size > 0;
  return { rows: rows.map((row) => ({ ...row, overtakes: more && !bursts.has(row) })), more };
}

/** The messages of instances, by instance id. */
export async function envelopesOf(env: EngineEnv, rows: readonly Pick<Open, "id">[]): Promise<ReadonlyMap<string, Envelope>> {
  const kept = await query<{ id: string; envelope: string }>(
    env.DB,
    sql`SELECT id, envelope FROM millrace_instances WHERE id IN ${among(rows.map(({ id }) => id))}`,
  );
  return new Map(kept.map(({ id, envelope }) => [id, JSON.parse(envelope) as Envelope]));
}

const DAY_MS = 86_400_000;

/**
 * The pause before the next check of an instance, in milliseconds. Each check costs a written row.
 * - In progress for up to ten minutes: half its age, at most 30 seconds.
 * - In progress for more than ten minutes: a twentieth of its age, at most 5 minutes, or an hour while it waits for an event or an
 *   operator.
 * - A delayed command: until it is due.
 * - Asleep according to the platform: the time for which the instance has slept, up to a day. When an instance wakes up, its run requests a
 *   check.
 */
export function pauseMs({ age_ms, since_ms, status, early_ms }: Open, hibernates: boolean): number {
  const waits = AT_REST.has(status);
  if (hibernates) return Math.max(30_000, Math.min(waits ? since_ms : 0, DAY_MS));
  const longest = waits ? 3_600_000 : 300_000;
  return Math.round(Math.max(KEEPER_PATIENCE_MS, early_ms, Math.min(age_ms / 2, Math.max(30_000, age_ms / 20), longest)));
}
