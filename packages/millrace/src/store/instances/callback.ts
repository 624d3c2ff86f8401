import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { type InstanceStatus, IS_INDEXED_AS_OVER } from "./status.ts";

/** An end with an owed callback. */
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
  /** The error as JSON; null unless it failed. */
  error: string | null;
  /** 1 when the undo of the instance is complete. */
  undone: number;
  callback_url: string;
  traceparent: string;
  tracestate: string | null;
  accepted_at: number;
  ended_at: number;
}

/** The condition of the index `instances_to_call`, in the same words: a partial index requires that. */
const IS_OWED = fragment(`callback <> run || ':' || status AND ${IS_INDEXED_AS_OVER.fragment}`);

/** Ends with an owed callback, from any cause; the oldest first. */
export function selectOwed(limit: number): Statement {
  return sql`
    SELECT id, tenant_id, workflow, run, status, message_type, idempotency_key, correlation_id, subject, error, undone,
      envelope->>'callback_url' AS callback_url, envelope->>'traceparent' AS traceparent, envelope->>'tracestate' AS tracestate,
      accepted_at, updated_at AS ended_at
    FROM millrace_instances INDEXED BY millrace_instances_to_call WHERE ${IS_OWED} ORDER BY updated_at LIMIT ${limit}`;
}

/**
 * Marks callbacks as no longer owed. An end that a retry or another end of its run has replaced remains. The statement must follow the
 * insert of the callbacks' instances.
 */
export function noteCalled(calls: readonly Pick<OwedCall, "id" | "run" | "status">[]): Statement {
  const rows = JSON.stringify(calls.map(({ id, run, status }) => ({ id, run, status })));
  return sql`
    UPDATE millrace_instances SET callback = run || ':' || status FROM json_each(${rows}) c
    WHERE millrace_instances.id = c.value->>'id' AND run = c.value->>'run' AND status = c.value->>'status' AND callback IS NOT NULL`;
}
