import type { EngineEnv } from "../contract/bindings.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { now, sql } from "../contract/sql.ts";
import { query } from "../store/d1/retry.ts";
import { timesBrokenOff } from "../store/instances/look.ts";
import { AT_REST, GOING_ON, type InstanceStatus } from "../store/instances/status.ts";

/** An instance that is due to be looked at. */
export interface Open {
  id: string;
  workflow: string;
  tenant_id: string;
  subject: string;
  correlation_id: string;
  status: InstanceStatus;
  queue: string | null;
  undo: string | null;
  run: number;
  accepted_at: number;
  check_at: number;
  overdue_ms: number;
  age_ms: number;
  /** How long its status has been what it is. */
  since_ms: number;
  /** 1 when an operator was promised something that the platform has not heard of yet: that comes first. */
  promised: number;
  /** The keeper's restarts of the present run after errors of the platform itself. */
  broken_off: number;
  /** 1 when it is in doubt, and no effect of it is. */
  undoubted: number;
  /** 1 when an effect of it is in doubt, and its status is another. */
  doubted: number;
}

/** What is due in one of the keeper's two lines: instances that it has not seen started, or all others; the longest overdue first. */
export function dueInstances(env: EngineEnv, line: "unseen" | "seen", limit: number): Promise<Open[]> {
  return query<Open>(
    env.DB,
    sql`
      SELECT id, workflow, tenant_id, subject, correlation_id, status, queue, undo, run, accepted_at, check_at,
        ${now} - check_at AS overdue_ms, ${now} - accepted_at AS age_ms, ${now} - updated_at AS since_ms, ${timesBrokenOff} AS broken_off,
        EXISTS (SELECT 1 FROM millrace_actions WHERE applied_at IS NULL
          AND millrace_actions.instance_id = millrace_instances.id) AS promised,
        status = 'in_doubt' AND NOT EXISTS (
          SELECT 1 FROM millrace_inbox WHERE millrace_inbox.instance_id = millrace_instances.id
            AND millrace_inbox.state = 'in_doubt') AS undoubted,
        status IN ${GOING_ON} AND EXISTS (
          SELECT 1 FROM millrace_inbox WHERE millrace_inbox.instance_id = millrace_instances.id
            AND millrace_inbox.state = 'in_doubt') AS doubted
      FROM millrace_instances INDEXED BY millrace_instances_to_check
      WHERE seen = ${line === "seen" ? 1 : 0} AND check_at <= ${now} ORDER BY check_at LIMIT ${limit}`,
  );
}

const DAY_MS = 86_400_000;

/**
 * The pause to the next look, which is a written row: half the instance's age, at most 30 seconds; for one that has been open for more than
 * ten minutes a twentieth of its age, at most 5 minutes, or an hour where it waits for somebody. One that the platform says is asleep is
 * left for as long again as it has been known to be, up to a day: whatever wakes it asks for a look.
 */
export function pauseMs({ age_ms, since_ms, status }: Open, hibernates: boolean): number {
  const waits = AT_REST.has(status);
  if (hibernates) return Math.max(30_000, Math.min(waits ? since_ms : 0, DAY_MS));
  const longest = waits ? 3_600_000 : 300_000;
  return Math.round(Math.max(KEEPER_PATIENCE_MS, Math.min(age_ms / 2, Math.max(30_000, age_ms / 20), longest)));
}
