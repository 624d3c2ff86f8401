import { type Commit, namedBatch, notRetryable, sql } from "millrace";
import { linkAccount } from "../../providers/crm-account.ts";
import { type AccountEnv, notedAccount } from "./account.ts";
import { letGoOfAll } from "./sends.ts";

/** Maximum number of links that one step deletes. */
const PAGE = 2000;

interface Adoption {
  /** The contact of the last deleted link; null if no links remain. */
  next: string | null;
}

/**
 * Deletes the next page of a tenant's links, beginning after the contact `after`. A deleted link's row only records that the new account
 * may have a record with our key. Therefore each contact is searched in the new account before its first push. No push runs before the last
 * link is deleted, and pushes in progress cannot write. Throws `not_retryable` if `account` is not the account of the deployment.
 */
export async function adoptAccount(env: AccountEnv, tenantId: string, account: string, after: string): Promise<Commit<Adoption>> {
  const id = linkAccount(env);
  if (account !== id) throw notRetryable(`The CRM account of this deployment is ${id}, not ${account}: send that one, or fix CRM_ACCOUNT.`);
  const isFirst = after === "";
  const mine = sql`tenant_id = ${tenantId} AND contact_id > ${after}`;
  const {
    noted: [noted],
    last: [last],
  } = await namedBatch(env.DB, {
    noted: notedAccount(tenantId),
    last: sql`SELECT contact_id AS id FROM crm_links WHERE ${mine} ORDER BY contact_id LIMIT 1 OFFSET ${PAGE - 1}`,
  });
  if (isFirst && noted?.account === id) return { output: { next: null } };
  const next = (last?.id as string | undefined) ?? null;
  return {
    statements: [
      sql`
        INSERT INTO crm_accounts (tenant_id, account, updated_at) VALUES (${tenantId}, ${next === null ? id : null}, ${sql.now})
        ON CONFLICT (tenant_id) DO UPDATE SET account = excluded.account, updated_at = excluded.updated_at`,
      ...letGoOfAll(tenantId),
      sql`
        UPDATE crm_links SET crm_id = NULL, state = 'none', revision = 0, known = '{}', maybe = '[{}]',
          version = version + 1, read_at = NULL,
          error = NULL, updated_at = ${sql.now}
        WHERE ${mine} ${next === null ? sql`` : sql`AND contact_id <= ${next}`}`,
    ],
    output: { next },
  };
}
