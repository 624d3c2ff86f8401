import { digest } from "../../contract/ids.ts";
import { now, sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import type { Check } from "../check.ts";
import { ageOf, slicedBy } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of schedules in one slice of the scan. */
const ROWS = 250;
/** Delay in milliseconds from which a due schedule counts as a divergence. The keeper starts due runs every ten seconds. */
const LATE_MS = 600_000;

interface Row {
  tenant_id: string;
  name: string;
  command: string;
  next_at: number;
  late_ms: number;
}

/** Compares the time of each schedule's next run with the present time. */
export const schedules: Check = engineCheck({
  name: "schedules",
  everyHours: 1,
  kinds: {
    schedule_overdue: { says: "The next time of a schedule has passed, but no run was started or recorded." },
  },
  async slice(env, from) {
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT tenant_id, name, command, next_at, ${now} - next_at AS late_ms FROM millrace_schedules
        WHERE next_at IS NOT NULL AND next_at >= ${Number(from ?? 0)} AND next_at <= ${now} - ${LATE_MS}
        ORDER BY next_at LIMIT ${ROWS + 1}`,
    );
    return slicedBy(
      rows,
      ROWS,
      ({ next_at }) => String(next_at),
      ({ tenant_id, name, command, late_ms }) => [
        {
          kind: "schedule_overdue",
          what: digest("schedule", tenant_id, name),
          tenantId: tenant_id,
          detail: `${command} was due ${ageOf(late_ms)} ago.`,
        },
      ],
    );
  },
});
