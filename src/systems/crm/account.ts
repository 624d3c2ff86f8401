import { type MillraceError, namedBatch, notRetryable, retryAfter, type Statement, sql } from "millrace";
import { type CrmAccountVars, linkAccount } from "../../providers/crm-account.ts";

/** The CRM account of a tenant's contacts. */
export interface Account {
  readonly id: string;
  /** True if no account is recorded for the tenant yet. */
  readonly isNew: boolean;
}

export type AccountEnv = { DB: D1Database } & CrmAccountVars;

/**
 * Reads rows and, in the same round trip, the recorded CRM account of the tenant. Throws `not_retryable` if the recorded account is not the
 * account of the deployment. Throws `retry_after` while the tenant changes to another account. Throws `config_invalid` if the deployment
 * has no valid account.
 */
export async function readOf<Row extends object>(
  env: AccountEnv,
  tenantId: string,
  statement: Statement,
): Promise<{ rows: Row[]; account: Account }> {
  const id = linkAccount(env);
  const {
    rows,
    noted: [noted],
  } = await namedBatch(env.DB, { rows: statement, noted: notedAccount(tenantId) });
  if (noted && noted.account !== id) throw refusalOf(noted.account as string | null, id);
  return { rows: rows as Row[], account: { id, isNew: noted === undefined } };
}

/** Records the tenant's CRM account with the first write, if none is recorded. */
export function noteAccount(tenantId: string, { id, isNew }: Account): Statement[] {
  if (!isNew) return [];
  return [sql`INSERT INTO crm_accounts (tenant_id, account, updated_at) VALUES (${tenantId}, ${id}, ${sql.now}) ON CONFLICT DO NOTHING`];
}

/** The SQL condition that another CRM account is recorded for the tenant now. */
export function isOtherAccount(tenantId: string, { id }: Account): Statement {
  return sql`EXISTS (SELECT 1 FROM crm_accounts a WHERE a.tenant_id = ${tenantId} AND a.account IS NOT ${id})`;
}

/**
 * Selects the recorded CRM account of a tenant. The result has no row if no account is recorded, and NULL while the tenant's links are
 * being deleted.
 */
export function notedAccount(tenantId: string): Statement {
  return sql`SELECT account FROM crm_accounts WHERE tenant_id = ${tenantId}`;
}

function refusalOf(noted: string | null, id: string): MillraceError {
  if (noted === null) return retryAfter(5000, "The links of another CRM account are being deleted: this waits for the end.");
  const command = JSON.stringify({ type: "crm.adopt_account", payload: { account: id, occasion: "moved" } });
  return notRetryable(
    `The contacts are linked to records of the CRM account ${noted}, and this deployment's is ${id}. To move them there, send the command ${command}, which deletes these links, then retry this. Otherwise fix CRM_URL and CRM_ACCOUNT.`,
  );
}
