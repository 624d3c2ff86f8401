import type { EngineEnv } from "../contract/bindings.ts";
import { andEquals, fragment, sql } from "../contract/sql.ts";
import { ALERT_COLUMNS, type Alert, type AlertRow, type AlertState, asAlert } from "../store/alerts.ts";
import { keysetPage, type Page, type PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

export interface AlertFilter extends PageRequest {
  state?: AlertState | undefined;
  rule?: string | undefined;
}

/** The deployment's alerts, newest first: open ones, and those resolved in the last 30 days. */
export function listAlerts(env: Pick<EngineEnv, "DB">, filter: AlertFilter): Promise<Page<Alert>> {
  return keysetPage(
    filter,
    ({ since, id }) => ({ at: since, id }),
    async (before, limit) => {
      const rows = await query<AlertRow>(
        env.DB,
        sql`
          SELECT ${ALERT_COLUMNS} FROM millrace_alerts INDEXED BY millrace_alerts_by_time
          WHERE (since, id) < (${before.at}, ${before.id}) ${andEquals(fragment("state"), filter.state)}
            ${andEquals(fragment("rule"), filter.rule)}
          ORDER BY since DESC, id DESC LIMIT ${limit}`,
      );
      return rows.map(asAlert);
    },
  );
}
