import { query, sql } from "millrace";
import { crmAccount } from "../../providers/crm-account.ts";
import { crm } from "../../providers/index.ts";
import type { AccountEnv } from "./account.ts";
import { type Candidate, candidatesByIds } from "./links.ts";
import { knownAs, type PushCall } from "./prepare.ts";
import { readRecords } from "./records.ts";

/** Our contact with the address of a record that was created in the CRM. */
interface SameAddress {
  ours: Candidate;
  /** The contacts whose links decide the result. */
  seen: readonly Candidate[];
}

/** Maximum number of contacts with the same address that are considered. */
const MAX_OF_ADDRESS = 10;

/**
 * Finds a contact with this address and without a CRM record. If the contact is an alias, the function returns the contact of the alias,
 * unless that contact has a record. Otherwise the function finds a contact with this address whose record was deleted, even if the CRM's
 * notice of the deletion has not arrived yet.
 */
export async function ofSameAddress(call: PushCall, email: string): Promise<SameAddress | undefined> {
  const { env, tenantId } = call;
  const found = await query<{ id: string }>(
    env.DB,
    sql`
      SELECT c.contact_id AS id FROM contacts c LEFT JOIN crm_links l ON l.tenant_id = c.tenant_id AND l.contact_id = c.contact_id
      WHERE c.tenant_id = ${tenantId} AND lower(c.email) = ${email.toLowerCase()}
      ORDER BY l.crm_id IS NOT NULL, c.contact_id LIMIT ${MAX_OF_ADDRESS}`,
  );
  const ids = found.map(({ id }) => id);
  const same = await candidatesByIds(env.DB, tenantId, ids);
  const free = same.find(({ link }) => !link?.crmId);
  if (free) {
    const into = (await knownAs(call, [free])).get(free.contact.contact_id) ?? "";
    const [canonical = free] = await candidatesByIds(env.DB, tenantId, [into]);
    return { ours: canonical.link?.crmId ? free : canonical, seen: [free, canonical] };
  }
  const recordOf = await readRecords(call, crm(env, tenantId), same);
  const dead = same.find((one) => recordOf(one).state === "gone");
  return dead && { ours: dead, seen: [dead] };
}

/** The id of a contact that was created in the CRM. The id includes the account, because each account counts records from 1. */
export function idOfMade(env: AccountEnv, crmId: string): string {
  return `crm-${crmAccount(env)}-${crmId}`;
}

/** An unused id for a contact that was created in the CRM. */
export async function freeIdFor(env: AccountEnv, tenantId: string, crmId: string): Promise<string | undefined> {
  const id = idOfMade(env, crmId);
  const ids = [id, `${id}-2`, `${id}-3`];
  const taken = await candidatesByIds(env.DB, tenantId, ids);
  return ids.find((one) => !taken.some(({ contact }) => contact.contact_id === one));
}
