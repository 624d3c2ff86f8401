import { now, query, type Statement, sql } from "millrace";
import { OPEN_LETTER_DAYS, type Retention } from "millrace/worker";
import { FACT_DAYS } from "../facts/retention.ts";

/** Rows that go at once. */
const ROWS = 500;

/**
 * The longest that a fact can still be matched against an endpoint: its ledger may send it again as long as it keeps it, and the dead
 * letter of that last message may be replayed at the end of its own time.
 */
const MATCHED_FOR_DAYS = FACT_DAYS + OPEN_LETTER_DAYS;

/** How long what belongs to webhooks stays. Deliveries stay no longer than the versions they name. */
export const webhookRetention: readonly Retention[] = [
  { name: "webhook deliveries", keepDays: 30, prune: slices(deleteDeliveries) },
  // Few rows, without an index by age: a look a day.
  { name: "webhook secrets", keepDays: 30, everyHours: 24, prune: slices(deleteSecrets) },
  { name: "webhook versions", keepDays: MATCHED_FOR_DAYS, everyHours: 24, prune: slices(deleteVersions) },
  { name: "webhook endpoints", keepDays: 60, everyHours: 24, prune: slices(deleteEndpoints) },
];

function slices(statement: (keepMs: number) => Statement): Retention["prune"] {
  return async (env, keepMs) => (await query(env.DB, statement(keepMs))).length;
}

/**
 * Endpoints first, so that the index by endpoint and time finds the oldest. One that failed and waits for a person goes as well: its
 * instance stays.
 */
function deleteDeliveries(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_deliveries WHERE id IN (
      SELECT d.id FROM (SELECT tenant_id, endpoint_id FROM webhook_versions WHERE replaced_at IS NULL) v
      CROSS JOIN webhook_deliveries d ON d.tenant_id = v.tenant_id AND d.endpoint_id = v.endpoint_id AND d.matched_at < ${now} - ${keepMs}
      LIMIT ${ROWS})
    RETURNING 1`;
}

/** The newest generation never ends by itself. The names of generations are not used again, because the newest stays. */
function deleteSecrets(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_secrets WHERE (tenant_id, endpoint_id, generation) IN (
      SELECT tenant_id, endpoint_id, generation FROM webhook_secrets WHERE valid_until < ${now} - ${keepMs} LIMIT ${ROWS})
    RETURNING 1`;
}

function deleteVersions(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_versions WHERE (tenant_id, endpoint_id, version) IN (
      SELECT tenant_id, endpoint_id, version FROM webhook_versions WHERE replaced_at < ${now} - ${keepMs} LIMIT ${ROWS})
    RETURNING 1`;
}

/**
 * A deleted endpoint, in all its versions, once its deliveries are gone: a fact that meets it still would not be sent. Its secrets ended
 * with it.
 */
function deleteEndpoints(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_versions WHERE (tenant_id, endpoint_id) IN (
      SELECT tenant_id, endpoint_id FROM webhook_versions v
      WHERE replaced_at IS NULL AND state = 'deleted' AND changed_at < ${now} - ${keepMs}
        AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.tenant_id = v.tenant_id AND d.endpoint_id = v.endpoint_id)
      LIMIT ${ROWS})
    RETURNING 1`;
}
