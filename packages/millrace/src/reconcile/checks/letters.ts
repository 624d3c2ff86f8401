import { sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import { ENDED } from "../../store/instances/status.ts";
import type { Check } from "../check.ts";
import { columnsOf, placeOf, slicedBy } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of dead letters in one slice of the scan. */
const ROWS = 250;

interface Row {
  id: string;
  instance_id: string;
  tenant_id: string | null;
  reason: string;
  workflow: string | null;
  status: string | null;
  ended: number;
}

/** Compares open dead letters of commands with the instances that the failed commands should have started. */
export const letters: Check = engineCheck({
  name: "letters",
  everyHours: 1,
  kinds: {
    letter_of_ended: { says: "A dead letter is open, but the instance of its message has ended." },
  },
  async slice(env, from) {
    const [instanceId, letterId] = columnsOf<readonly [string, string]>(from, ["", ""]);
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT l.id, l.instance_id, l.tenant_id, l.reason, i.workflow, i.status, i.status IN ${ENDED} AS ended
        FROM millrace_dead_letters l INDEXED BY millrace_dead_letters_of_instance LEFT JOIN millrace_instances i ON i.id = l.instance_id
        WHERE l.state = 'open' AND l.instance_id IS NOT NULL AND (l.instance_id, l.id) >= (${instanceId}, ${letterId})
        ORDER BY l.instance_id, l.id LIMIT ${ROWS + 1}`,
    );
    return slicedBy(
      rows,
      ROWS,
      ({ instance_id, id }) => placeOf(instance_id, id),
      ({ id, tenant_id, reason, workflow, status, ended }) =>
        ended
          ? [{ kind: "letter_of_ended", what: id, tenantId: tenant_id, detail: `Open (${reason}); the row of ${workflow} says ${status}.` }]
          : [],
    );
  },
});
