import type { EngineEnv } from "../../contract/bindings.ts";
import { now, sql } from "../../contract/sql.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { lookAgain } from "../../store/instances/look.ts";
import { UNDER_WAY } from "../../store/instances/status.ts";
import { TURN } from "../../store/instances/to-start.ts";
import { OLDEST_FITTING } from "../../store/signals.ts";
import { takeEarly } from "../../store/waits.ts";
import { ageOf, scan } from "../scan.ts";

/** The scan skips instances that the keeper checks within this time, in milliseconds. */
const LEFT_ALONE_MS = 600_000;
/** Maximum delay of the platform's timer, in milliseconds. */
const TIMER_MS = 600_000;

interface Row {
  place: number;
  check_at: number;
  id: string;
  tenant_id: string;
  workflow: string;
  untold: number;
  unassigned: number;
  overdue_ms: number | null;
}

/**
 * Compares the waits of instances with the received events. The scan covers instances whose next check by the keeper is far in the future,
 * in the order of these checks.
 */
export const sleepers = scan<Row, readonly [number, number]>({
  name: "sleepers",
  everyHours: 1,
  kinds: {
    event_untold: {
      says: "An instance was not notified of the event that is assigned to its wait.",
      fix: (env, { what }) => query(env.DB, lookAgain([what])),
    },
    event_unassigned: {
      says: "An instance waits for an event that has arrived, but is not assigned to its wait.",
      fix: (env, { what }) => takeWhatFits(env, what),
    },
    wait_overdue: { says: "An instance waits for an event, but its time limit passed long ago." },
  },
  rows: 250,
  start: [0, Number.MIN_SAFE_INTEGER],
  select: ([checkAt, place], limit) => sql`
    SELECT millrace_instances.rowid AS place, check_at, id, tenant_id, workflow,
      EXISTS (SELECT 1 FROM millrace_waits WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NOT NULL
        AND told_at IS NULL) AS untold,
      EXISTS (SELECT 1 FROM millrace_waits WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL
        AND over_at IS NULL
        AND ${OLDEST_FITTING} IS NOT NULL) AS unassigned,
      (SELECT max(${now} - due_at) FROM millrace_waits
        WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL AND over_at IS NULL
          AND due_at <= ${now} - ${TIMER_MS}) AS overdue_ms
    FROM millrace_instances INDEXED BY millrace_instances_to_check
    WHERE seen = 1 AND ${TURN} = '' AND check_at >= max(${checkAt}, ${now} + ${LEFT_ALONE_MS})
      AND (check_at, millrace_instances.rowid) >= (${checkAt}, ${place})
      AND status IN ${UNDER_WAY}
    ORDER BY check_at, millrace_instances.rowid LIMIT ${limit}`,
  place: ({ check_at, place }) => [check_at, place],
  find: ({ workflow, untold, unassigned, overdue_ms }) => [
    untold && { kind: "event_untold", detail: `A wait of ${workflow} has its event, but told_at is empty.` },
    unassigned && { kind: "event_unassigned", detail: `A wait of ${workflow} is open, although a matching event is stored.` },
    overdue_ms !== null && {
      kind: "wait_overdue",
      detail: `The time limit of a wait of ${workflow} passed ${ageOf(overdue_ms)} ago, and it is still open.`,
    },
  ],
});

/** Assigns the oldest matching event to the instance's most recent wait, in the same way as the start of a wait does. */
async function takeWhatFits(env: EngineEnv, instanceId: string): Promise<void> {
  const [wait] = await query<{ name: string }>(
    env.DB,
    sql`
      SELECT name FROM millrace_waits
      WHERE instance_id = ${instanceId} AND signal_id IS NULL AND over_at IS NULL AND ${OLDEST_FITTING} IS NOT NULL
      ORDER BY coalesce(asked_at, since_at) DESC LIMIT 1`,
  );
  if (wait) await atomically(env.DB, [takeEarly(instanceId, wait.name), lookAgain([instanceId])]);
}
