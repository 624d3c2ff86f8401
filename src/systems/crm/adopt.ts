import { type Commit, namedBatch, notRetryable, now, sql } from "millrace";
import { linkAccount } from "../../providers/crm-account.ts";
import { type AccountEnv, notedAccount } from "./account.ts";
import { letGoOfAll } from "./sends.ts";

/** Links that one step forgets. */
const PAGE = 2000;

/** Where an adoption stands behind a step. */
interface Adoption {
  /** The last contact whose link is forgotten; null when there is none behind it. */
  next: string | null;
}

/**
 * Forgets a tenant's links behind a contact, some at a time. All that they say from then on is that a record of our name may be there: the
 * deployment's account may have had the contacts before, so each is looked for there before anything is sent. Nobody can push before the
 * last is forgotten, and what was on its way is not written. Errors: `not_retryable` for an account that is not the deployment's.
 */
export async function adoptAccount(env: AccountEnv, tenantId: string, account: string, after: string): Promise<Commit<Adoption>> {
  const id = linkAccount(env);
  if (account !== id) throw notRetryable(`The CRM account of this deployment is ${id}, not ${account}: say that one, or mend CRM_ACCOUNT.`);
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
        INSERT INTO crm_accounts (tenant_id, account, updated_at) VALUES (${tenantId}, ${next === null ? id : null}, ${now})
        ON CONFLICT (tenant_id) DO UPDATE SET account = excluded.account, updated_at = excluded.updated_at`,
      ...letGoOfAll(tenantId),
      sql`
        UPDATE crm_links SET crm_id = NULL, state = 'none', revision = 0, known = '{}', maybe = '[{}]',
          version = version + 1, read_at = NULL,
          error = NULL, updated_at = ${now}
        WHERE ${mine} ${next === null ? sql`` : sql`AND contact_id <= ${next}`}`,
    ],
    output: { next },
  };
}
