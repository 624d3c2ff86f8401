import type { EngineEnv } from "../../contract/bindings.ts";
import { platformId } from "../../contract/ids.ts";
import { now, sql } from "../../contract/sql.ts";
import { askPlatform, nudge } from "../../intake/platform.ts";
import { findSetBack } from "../../operate/instances/past.ts";
import { isLocal, query } from "../../store/d1/retry.ts";
import { lookAgain } from "../../store/instances/look.ts";
import { FAILED, GOING_ON, type InstanceStatus, OVER } from "../../store/instances/status.ts";
import { type Check, type Divergence, engineCheck, scan } from "../scan.ts";

/** Maximum number of instances in one slice of the scans. */
const ROWS = 250;
/** Maximum number of instances in progress that one slice looks up on the platform. */
const ASKED = 50;
/** Minimum age of the instances in the scans, in milliseconds. The keeper checks younger instances. */
const YOUNGEST_MS = 600_000;
/** Maximum age of ended instances. Scans are a day apart, so each instance is checked by one scan. */
const OLDEST_MS = 26 * 3_600_000;

interface Row {
  place: number;
  id: string;
  tenant_id: string;
  workflow: string;
  status: InstanceStatus;
  undo: string | null;
  asked: number;
}

/**
 * Compares ended instances with their status on the platform. The keeper checks instances in progress, and restarts lost instances.
 * Instances that the platform has deleted are skipped.
 */
export const ends = scan<Row, readonly [number]>({
  name: "ends",
  everyHours: 24,
  kinds: {
    not_failed: {
      says: "An instance has failed or never started by its row, but is running or has ended differently on the platform.",
      fix: (env, { what }) => query(env.DB, lookAgain([what])),
    },
    run_left_standing: {
      says: "An instance is complete by its row, but is running on the platform.",
      fix: (env, { what }) => wake(env, what),
    },
    ended_otherwise: {
      says: "An instance has ended by its row, but is running on the platform; or it has another end there.",
    },
  },
  rows: ROWS,
  start: [Number.MIN_SAFE_INTEGER],
  select: ([place], limit) => sql`
    SELECT rowid AS place, id, tenant_id, workflow, status, undo,
      check_at IS NULL AND status IN ${OVER} AND updated_at BETWEEN ${now} - ${OLDEST_MS} AND ${now} - ${YOUNGEST_MS} AS asked
    FROM millrace_instances WHERE rowid >= ${place} ORDER BY rowid LIMIT ${limit}`,
  place: ({ place }) => [place],
  find: async ({ id, workflow, status, undo, asked }, env) => {
    if (asked !== 1) return [];
    const said = (await askPlatform(env, workflow, platformId(id, undo))).status;
    const detail = `The row of ${workflow} says ${status}, the platform ${said}.`;
    const isEnd = said === "complete" || said === "errored" || said === "terminated";
    if (!AT_WORK.has(said) && (!isEnd || agrees(status, said, undo))) return [];
    if (FAILED.has(status)) return [{ kind: "not_failed", detail }];
    return [{ kind: status === "complete" && AT_WORK.has(said) ? "run_left_standing" : "ended_otherwise", detail }];
  },
});

const AT_WORK: ReadonlySet<string> = new Set(["queued", "running", "waiting", "paused", "waitingForPause", "rollingBack"]);

/**
 * Wakes the platform's run of a complete instance. In local development, a process may be killed after the database has recorded the end
 * and before the platform has. The replay finds that every step is done, and ends. The run is not terminated, because a termination would
 * delete the run's output on the platform, and because an operator may have restarted the run.
 */
async function wake(env: EngineEnv, id: string): Promise<void> {
  if (!(await isLocal(env.DB))) return;
  const [row] = await query<{ workflow: string }>(
    env.DB,
    sql`SELECT workflow FROM millrace_instances WHERE id = ${id} AND status = 'complete'`,
  );
  if (!row) return;
  const { status, instance } = await askPlatform(env, row.workflow, id);
  if (instance !== null && AT_WORK.has(status)) await nudge(instance);
}

/**
 * True if the end on the platform fits the row's status. An undo is a separate run on the platform. When the undo completes, its instance
 * is terminated. A run that an operator stopped is failed or terminated on the platform. An instance that an operator closed was failed or
 * terminated before the close.
 */
function agrees(status: string, said: "complete" | "errored" | "terminated", undo: string | null): boolean {
  if (status === "skipped") return undo !== null || said !== "complete";
  if (status === "terminated" && undo === null) return said !== "complete";
  if (undo !== null) return status === (said === "complete" ? "terminated" : "errored");
  return status === said;
}

/**
 * Compares instances in progress with the steps of their runs on the platform. Steps without a record show that the database was restored
 * to an earlier state.
 */
export const setBack: Check = engineCheck({
  name: "set_back",
  everyHours: 24,
  kinds: {
    database_set_back: {
      says: "A run has completed steps on the platform without a record in the database: an earlier state of the database was restored.",
    },
  },
  async slice(env, from) {
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT rowid AS place, id, tenant_id, workflow, status,
          status IN ${GOING_ON} AND undo IS NULL AND updated_at <= ${now} - ${YOUNGEST_MS} AS asked
        FROM millrace_instances WHERE rowid >= ${Number(from ?? Number.MIN_SAFE_INTEGER)} ORDER BY rowid LIMIT ${ROWS + 1}`,
    );
    const whole = rows.slice(0, ROWS);
    const asked = whole.filter((row) => row.asked === 1);
    const found = await Promise.all(
      asked.slice(0, ASKED).map(async ({ id, tenant_id, workflow, status, place }): Promise<Divergence[]> => {
        const behind = await findSetBack(env, { id, workflow });
        const detail = `The row of ${workflow} says ${status}; ${behind?.done} completed steps of its run have no record.`;
        return behind ? [{ kind: "database_set_back", what: id, tenantId: tenant_id, place: String(place), detail }] : [];
      }),
    );
    const next = asked[ASKED] ?? rows[ROWS];
    return { found: found.flat(), next: next ? String(next.place) : null };
  },
});
