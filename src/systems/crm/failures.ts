import { MillraceError, notRetryable, query, type Statement, sql, texts } from "millrace";
import type { CrmRefusal } from "../../providers/index.ts";
import type { Refused } from "./pushed.ts";

/** A contact that the CRM refused in a sync. */
export interface Failure {
  contactId: string;
  /** `waiting`: the contact is retried before the sync ends. */
  state: "waiting" | "failed";
  category: string;
  message: string;
  correlationId: string | null;
  tries: number;
  updatedAt: number;
}

interface Owner {
  tenantId: string;
  syncId: string;
}

/** Maximum characters of the CRM's message that are kept. */
const MAX_CHARACTERS = 500;

/** The error of a refusal. */
export function asError({ category, message, correlationId }: Refused): {
  category: string;
  message: string;
  correlation_id: string | null;
} {
  return { category: texts.beginning(category, 100), message: texts.beginning(message, MAX_CHARACTERS), correlation_id: correlationId };
}

/**
 * Converts a refusal to an error of a step for one contact. The error is `upstream_refused` if a later attempt may succeed, otherwise
 * `not_retryable`.
 */
export function asStopped(what: string, { retry, category, message }: CrmRefusal): MillraceError {
  const said = texts.beginning(`${what}: ${category}: ${message}`, 900);
  return retry ? new MillraceError("upstream_refused", said) : notRetryable(said);
}

/** Records refusals of one sync. Temporarily refused contacts wait for a retry, unless this was the last round. */
export function noteFailures({ tenantId, syncId }: Owner, refused: readonly Refused[], isLast: boolean): Statement[] {
  const rows = refused.map((one) => ({ contactId: one.contactId, state: one.retry && !isLast ? "waiting" : "failed", ...asError(one) }));
  return sql.rows(rows).map(
    (chunk) => sql`
      INSERT INTO crm_failures (tenant_id, sync_id, contact_id, state, category, message, correlation_id, updated_at)
      SELECT ${tenantId}, ${syncId}, value->>'contactId', value->>'state', value->>'category', value->>'message',
        value->>'correlation_id', ${sql.now}
      FROM json_each(${chunk}) WHERE true
      ON CONFLICT (tenant_id, sync_id, contact_id) DO UPDATE SET
        state = excluded.state, category = excluded.category, message = excluded.message, correlation_id = excluded.correlation_id,
        tries = crm_failures.tries + 1, updated_at = excluded.updated_at`,
  );
}

/** Removes the failures of the given contacts. */
export function forgetFailures({ tenantId, syncId }: Owner, contactIds: readonly string[]): Statement[] {
  if (contactIds.length === 0) return [];
  return [
    sql`
      DELETE FROM crm_failures WHERE tenant_id = ${tenantId} AND sync_id = ${syncId}
        AND contact_id IN ${sql.among(contactIds)}`,
  ];
}

/** Contacts of a sync that wait for a retry, in the order of their ids. */
export async function waitingAfter(db: D1Database, { tenantId, syncId }: Owner, after: string, limit: number): Promise<string[]> {
  const found = await query<{ id: string }>(
    db,
    sql`
      SELECT contact_id AS id FROM crm_failures
      WHERE tenant_id = ${tenantId} AND sync_id = ${syncId} AND contact_id > ${after} AND state = 'waiting'
      ORDER BY contact_id LIMIT ${limit}`,
  );
  return found.map(({ id }) => id);
}

/** A sync's failures after a contact, in the order of the contacts' ids. */
export function listFailures(db: D1Database, { tenantId, syncId }: Owner, after: string, limit: number): Promise<Failure[]> {
  return query<Failure & Record<string, unknown>>(
    db,
    sql`
      SELECT contact_id AS contactId, state, category, message, correlation_id AS correlationId, tries, updated_at AS updatedAt
      FROM crm_failures
      WHERE tenant_id = ${tenantId} AND sync_id = ${syncId} AND contact_id > ${after} ORDER BY contact_id LIMIT ${limit}`,
  );
}
