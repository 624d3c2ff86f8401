import { sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import { GOING_ON } from "../../store/instances/status.ts";
import { markInDoubt } from "../../store/instances/wait.ts";
import type { Check } from "../check.ts";
import { columnsOf, placeOf, slicedBy } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of effects in one slice of the scan. */
const ROWS = 250;

interface Row {
  updated_at: number;
  instance_id: string;
  tenant_id: string | null;
  workflow: string;
  status: string;
  unseen: number;
}

/** Compares effects with an unknown outcome with the rows of their instances. */
export const doubts: Check = engineCheck({
  name: "doubts",
  everyHours: 1,
  kinds: {
    doubt_unseen: {
      says: "An effect has an unknown outcome, but the status of its instance is not in_doubt.",
      mend: (env, { what }) => query(env.DB, markInDoubt(what)),
    },
  },
  async slice(env, from) {
    const [updatedAt, instanceId] = columnsOf<readonly [number, string]>(from, [0, ""]);
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT e.updated_at, e.instance_id, i.tenant_id, i.workflow, i.status, i.status IN ${GOING_ON} AS unseen
        FROM millrace_inbox e INDEXED BY millrace_inbox_in_doubt CROSS JOIN millrace_instances i ON i.id = e.instance_id
        WHERE e.state = 'in_doubt' AND (e.updated_at, e.instance_id) >= (${updatedAt}, ${instanceId})
        ORDER BY e.updated_at, e.instance_id LIMIT ${ROWS + 1}`,
    );
    return slicedBy(
      rows,
      ROWS,
      ({ updated_at, instance_id }) => placeOf(updated_at, instance_id),
      ({ instance_id, tenant_id, workflow, status, unseen }) =>
        unseen
          ? [
              {
                kind: "doubt_unseen",
                what: instance_id,
                tenantId: tenant_id,
                detail: `The row of ${workflow} says ${status}, an entry of its inbox in_doubt.`,
              },
            ]
          : [],
    );
  },
});
