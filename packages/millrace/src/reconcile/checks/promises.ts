import { now, sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import type { Check } from "../check.ts";
import { ageOf, columnsOf, placeOf, slicedBy } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of actions in one slice of the scan. */
const ROWS = 250;
/**
 * Age in milliseconds from which an open action counts as a divergence. When the platform is available, the keeper applies an action within
 * seconds.
 */
const LATE_MS = 3_600_000;

interface Row {
  id: string;
  instance_id: string;
  tenant_id: string;
  verb: string;
  attempts: number;
  age_ms: number;
}

/** Finds accepted actions of operators that the keeper has not applied on the platform in time. */
export const promises: Check = engineCheck({
  name: "promises",
  everyHours: 1,
  kinds: {
    promise_unkept: { says: "An operator's action was recorded more than an hour ago, but is not applied on the platform." },
  },
  async slice(env, from) {
    const [instanceId, actionId] = columnsOf<readonly [string, string]>(from, ["", ""]);
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT id, instance_id, tenant_id, verb, attempts, ${now} - at AS age_ms FROM millrace_actions INDEXED BY millrace_actions_open
        WHERE applied_at IS NULL AND (instance_id, id) >= (${instanceId}, ${actionId}) ORDER BY instance_id, id LIMIT ${ROWS + 1}`,
    );
    return slicedBy(
      rows,
      ROWS,
      ({ instance_id, id }) => placeOf(instance_id, id),
      ({ id, tenant_id, verb, attempts, age_ms }) =>
        age_ms > LATE_MS
          ? [{ kind: "promise_unkept", what: id, tenantId: tenant_id, detail: `${verb} of ${ageOf(age_ms)} ago, tried ${attempts} times.` }]
          : [],
    );
  },
});
