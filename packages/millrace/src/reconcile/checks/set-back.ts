import { now, sql } from "../../contract/sql.ts";
import { findSetBack } from "../../operate/instances/set-back.ts";
import { query } from "../../store/d1/retry.ts";
import { GOING_ON } from "../../store/instances/status.ts";
import type { Check, Divergence } from "../check.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of instances in one slice of the scan, and maximum number of these instances that are looked up on the platform. */
const ROWS = 250;
const ASKED = 50;
/** Minimum age of the instances in the scan, in milliseconds. The keeper checks younger instances. */
const YOUNGEST_MS = 600_000;

interface Row {
  place: number;
  id: string;
  tenant_id: string;
  workflow: string;
  status: string;
  asked: number;
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
