import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { type InstanceStatus, IS_INDEXED_AS_OVER } from "./status.ts";

/** The end of an instance whose callback has not been sent yet. */
export interface OwedCall {
  id: string;
  tenant_id: string;
  workflow: string;
  run: number;
  status: InstanceStatus;
  message_type: string;
  idempotency_key: string;
  correlation_id: string;
  subject: string;
  /** The error of the instance as JSON; null unless the instance failed. */
  error: string | null;
  /** Flag (0 or 1): 1 if the undo of the instance is complete. */
  undone: number;
  callback_url: string;
  traceparent: string;
  tracestate: string | null;
  accepted_at: number;
  ended_at: number;
}

/**
 * The condition of the partial index `instances_to_call`. The text must equal the index's condition, so that the database uses the index.
 */
export const IS_OWED = fragment(`callback <> run || ':' || status AND ${IS_INDEXED_AS_OVER.fragment}`);

/** Selects the ends of instances whose callbacks are not sent yet. The oldest end comes first. */
export function selectOwed(limit: number): Statement {
  return sql`
    SELECT id, tenant_id, workflow, run, status, message_type, idempotency_key, correlation_id, subject, error, undone,
      envelope->>'callback_url' AS callback_url, envelope->>'traceparent' AS traceparent, envelope->>'tracestate' AS tracestate,
      accepted_at, updated_at AS ended_at
    FROM millrace_instances INDEXED BY millrace_instances_to_call WHERE ${IS_OWED} ORDER BY updated_at LIMIT ${limit}`;
}

/**
 * Marks the callbacks of ended instances as sent. A callback is not marked if a retry or another end has replaced the end that the callback
 * reports. The statement must follow the insert of the callbacks' instances.
 */
export function noteCalled(calls: readonly Pick<OwedCall, "id" | "run" | "status">[]): Statement {
  const rows = JSON.stringify(calls.map(({ id, run, status }) => ({ id, run, status })));
  return sql`
    UPDATE millrace_instances SET callback = run || ':' || status FROM json_each(${rows}) c
    WHERE millrace_instances.id = c.value->>'id' AND run = c.value->>'run' AND status = c.value->>'status' AND callback IS NOT NULL`;
}
