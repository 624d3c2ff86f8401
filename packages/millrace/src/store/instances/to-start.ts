import { fragment } from "../../contract/sql.ts";

/** The tenant of an instance without a recorded start, and the empty string for all others: a column of the index `to_check`. */
export const TURN = fragment(`iif(seen, '', tenant_id)`);

const TO_START = fragment("millrace_instances INDEXED BY millrace_instances_to_check WHERE seen = 0 AND check_at IS NOT NULL");

/**
 * For `WITH RECURSIVE`: the tenants that have instances without a recorded start, and the time of each tenant's next check. The query reads
 * one row of each tenant.
 */
export const TENANTS_TO_START = fragment(`tenants(turn, at) AS (
      SELECT * FROM (SELECT ${TURN.fragment}, check_at FROM ${TO_START.fragment} ORDER BY ${TURN.fragment}, check_at LIMIT 1)
      UNION ALL
      SELECT n.tenant_id, n.check_at FROM tenants t CROSS JOIN millrace_instances n
      ON n.rowid = (SELECT rowid FROM ${TO_START.fragment} AND ${TURN.fragment} > t.turn ORDER BY ${TURN.fragment}, check_at LIMIT 1))`);
