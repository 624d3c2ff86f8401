import { query, sql } from "millrace";
import type { LinkState } from "./links.ts";

export interface Standing {
  contactId: string;
  crmId: string | null;
  /** `none` for a contact that never had a record in the CRM. */
  state: LinkState;
  revision: number;
  syncedRevision: number;
  /** 1 if the next sync sends the contact to the CRM. */
  pending: 0 | 1;
  error: { category: string; message: string; correlation_id: string | null } | null;
  updatedAt: number | null;
}

export interface StandingFilter {
  contactId?: string | undefined;
  crmId?: string | undefined;
  pending?: boolean | undefined;
}

/** Lists the tenant's contacts after an id, in the order of ids, with the CRM state of each contact. */
export async function listStandings(
  db: D1Database,
  tenantId: string,
  filter: StandingFilter,
  after: string,
  limit: number,
): Promise<Standing[]> {
  const pending = sql`(coalesce(l.state, '') <> 'cut' AND (l.revision IS NULL OR l.revision <> c.revision))`;
  // A filter by CRM id uses the links' own index; otherwise the contacts are scanned.
  const from =
    filter.crmId === undefined
      ? sql`contacts c LEFT JOIN crm_links l ON l.tenant_id = c.tenant_id AND l.contact_id = c.contact_id`
      : sql`crm_links l INDEXED BY crm_links_by_record CROSS JOIN contacts c ON c.tenant_id = l.tenant_id AND c.contact_id = l.contact_id`;
  const asked = [
    ...(filter.contactId === undefined ? [] : [sql`AND c.contact_id = ${filter.contactId}`]),
    ...(filter.crmId === undefined ? [] : [sql`AND l.tenant_id = ${tenantId} AND l.crm_id = ${filter.crmId}`]),
    ...(filter.pending === undefined ? [] : [sql`AND ${pending} = ${filter.pending ? 1 : 0}`]),
  ];
  const where = asked.reduce((all, one) => sql`${all} ${one}`, sql`c.tenant_id = ${tenantId} AND c.contact_id > ${after}`);
  const found = await query<Omit<Standing, "error"> & { error: string | null }>(
    db,
    sql`
      SELECT c.contact_id AS contactId, l.crm_id AS crmId, coalesce(l.state, 'none') AS state, c.revision,
        coalesce(l.revision, 0) AS syncedRevision, ${pending} AS pending, l.error, l.updated_at AS updatedAt
      FROM ${from} WHERE ${where} ORDER BY c.contact_id LIMIT ${limit}`,
  );
  return found.map((row) => ({ ...row, error: row.error === null ? null : JSON.parse(row.error) }));
}
