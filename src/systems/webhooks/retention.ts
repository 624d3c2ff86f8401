import { query, type Statement, sql } from "millrace";
import { OPEN_LETTER_DAYS, type Retention } from "millrace/worker";
import { FACT_DAYS } from "../facts/retention.ts";

/** Maximum number of rows that one statement deletes. */
const ROWS = 500;

/**
 * The longest time from a fact's recording to a match of the fact. A ledger may send an old fact again, and that message may become a dead
 * letter which is replayed later.
 */
const MATCHED_FOR_DAYS = FACT_DAYS + OPEN_LETTER_DAYS;

/** A delivery is not kept longer than the endpoint version to which it refers. */
export const webhookRetention: readonly Retention[] = [
  { name: "webhook deliveries", keepDays: 30, prune: slices(deleteDeliveries) },
  // The tables below have few rows and no index by age, so they are checked only once a day.
  { name: "webhook secrets", keepDays: 30, everyHours: 24, prune: slices(deleteSecrets) },
  { name: "webhook versions", keepDays: MATCHED_FOR_DAYS, everyHours: 24, prune: slices(deleteVersions) },
  { name: "webhook endpoints", keepDays: 60, everyHours: 24, prune: slices(deleteEndpoints) },
];

function slices(statement: (keepMs: number) => Statement): Retention["prune"] {
  return async (env, keepMs) => (await query(env.DB, statement(keepMs))).length;
}

/**
 * The statement is ordered by endpoint, so that the index by endpoint and time finds the oldest deliveries. A failed delivery that waits
 * for an operator is deleted too, but the delivery's instance remains.
 */
function deleteDeliveries(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_deliveries WHERE id IN (
      SELECT d.id FROM (SELECT tenant_id, endpoint_id FROM webhook_versions WHERE replaced_at IS NULL) v
      CROSS JOIN webhook_deliveries d
        ON d.tenant_id = v.tenant_id AND d.endpoint_id = v.endpoint_id AND d.matched_at < ${sql.now} - ${keepMs}
      LIMIT ${ROWS})
    RETURNING 1`;
}

/** The newest generation is never deleted, because it has no end. Therefore the numbers of generations are not reused. */
function deleteSecrets(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_secrets WHERE (tenant_id, endpoint_id, generation) IN (
      SELECT tenant_id, endpoint_id, generation FROM webhook_secrets WHERE valid_until < ${sql.now} - ${keepMs} LIMIT ${ROWS})
    RETURNING 1`;
}

function deleteVersions(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_versions WHERE (tenant_id, endpoint_id, version) IN (
      SELECT tenant_id, endpoint_id, version FROM webhook_versions WHERE replaced_at < ${sql.now} - ${keepMs} LIMIT ${ROWS})
    RETURNING 1`;
}

/**
 * Removes a deleted endpoint with all versions, after the endpoint's deliveries were removed. This is possible because a deleted endpoint
 * gets no further deliveries. The endpoint's secrets ended at its deletion.
 */
function deleteEndpoints(keepMs: number): Statement {
  return sql`
    DELETE FROM webhook_versions WHERE (tenant_id, endpoint_id) IN (
      SELECT tenant_id, endpoint_id FROM webhook_versions v
      WHERE replaced_at IS NULL AND state = 'deleted' AND changed_at < ${sql.now} - ${keepMs}
        AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.tenant_id = v.tenant_id AND d.endpoint_id = v.endpoint_id)
      LIMIT ${ROWS})
    RETURNING 1`;
}
