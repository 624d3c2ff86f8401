import type { EngineEnv } from "../contract/bindings.ts";
import { sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { GOING_ON, type InstanceStatus } from "../store/instances/status.ts";

/** Longest time that a request waits for an instance, in seconds. */
export const MAX_WAIT_S = 30;

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;

/**
 * Waits until an instance does not continue by itself. Then the instance has ended, or needs an operator's answer, resolution or resume.
 * While an undo of the instance runs, a pending question does not end the wait. Returns after `ms` at the latest, when `signal` aborts, and
 * at once for an unknown instance. The function reads the instance's row and its newest question every 50 ms at first, and every second
 * later. A wait of 30 s takes 35 reads.
 */
export async function untilSettled(env: EngineEnv, by: Operator, id: string, ms: number, signal?: AbortSignal): Promise<void> {
  const until = Date.now() + ms;
  for (let pauseMs = FIRST_PAUSE_MS; !signal?.aborted; pauseMs = Math.min(pauseMs * 1.5, MAX_PAUSE_MS)) {
    const [row] = await query<{ status: InstanceStatus; asks: number }>(
      env.DB,
      sql`
        SELECT status,
          undo IS NULL AND EXISTS (SELECT 1 FROM millrace_approvals
            WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending') AS asks
        FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`,
    );
    const leftMs = until - Date.now();
    if (row === undefined || !GOING_ON.has(row.status) || row.asks === 1 || leftMs <= 0) return;
    await scheduler.wait(Math.min(pauseMs, leftMs));
  }
}
