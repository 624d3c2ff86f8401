import { query, type Statement, sql } from "millrace";
import { asContact, type Contact, type StoredContact } from "../contacts/contact.ts";
import { type Account, readOf } from "./account.ts";
import type { ContactPatch, Properties } from "./properties.ts";

export const LINK_STATES = ["linked", "none", "merged", "cut"] as const;
export type LinkState = (typeof LINK_STATES)[number];

/** The CRM state of a contact. */
export interface Link {
  crmId: string | null;
  state: LinkState;
  revision: number;
  known: Properties;
  /** Values that an interrupted push may have written in the CRM. */
  maybe: readonly Properties[];
  /** Number of writes of this link. */
  version: number;
  /** The category of the last error; null for none. */
  error: string | null;
}

/** A contact with its revision and its link. */
export interface Candidate {
  contact: Contact & { revision: number };
  link: Link | null;
}

interface Joined extends StoredContact {
  revision: number;
  crm_id: string | null;
  state: LinkState | null;
  synced: number | null;
  known: string | null;
  maybe: string | null;
  version: number | null;
  error: string | null;
}

const JOINED = sql.fragment(
  `c.contact_id, c.email, c.name, c.properties, c.revision,
    l.crm_id, l.state, l.revision AS synced, l.known, l.maybe, l.version, l.error->>'category' AS error`,
);
const LINK_OF = sql.fragment("LEFT JOIN crm_links l ON l.tenant_id = c.tenant_id AND l.contact_id = c.contact_id");

/** Maximum number of contacts of one step. Each contact's row must begin within the first `PAGE_BYTES` bytes. */
const PAGE_ROWS = 500;
const PAGE_BYTES = 1024 ** 2;

/**
 * Reads contacts after an id, in the order of their ids: either all contacts, or only those with changes that the CRM does not have.
 * Contacts whose record was deleted in the CRM are excluded, because a sync does not recreate the record.
 */
export async function candidatesAfter(
  db: D1Database,
  tenantId: string,
  after: string,
  scope: "changed" | "all",
): Promise<{ candidates: Candidate[]; more: boolean }> {
  const wanted = scope === "all" ? sql`` : sql`AND (l.revision IS NULL OR l.revision <> c.revision)`;
  const found = await query<Joined & { more: number | null }>(
    db,
    sql`
      SELECT * FROM (
        SELECT ${JOINED}, lead(1) OVER (ORDER BY c.contact_id) AS more,
          sum(octet_length(c.properties) + coalesce(octet_length(l.known), 0))
            OVER (ORDER BY c.contact_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (
          SELECT c.* FROM contacts c ${LINK_OF}
          WHERE c.tenant_id = ${tenantId} AND c.contact_id > ${after} AND coalesce(l.state, '') <> 'cut' ${wanted}
          ORDER BY c.contact_id LIMIT ${PAGE_ROWS + 1}) c ${LINK_OF})
      WHERE coalesce(before, 0) < ${PAGE_BYTES} ORDER BY contact_id LIMIT ${PAGE_ROWS}`,
  );
  return { candidates: found.map(asCandidate), more: Boolean(found.at(-1)?.more) };
}

/** The given contacts that exist. */
export async function candidatesByIds(db: D1Database, tenantId: string, ids: readonly string[]): Promise<Candidate[]> {
  if (ids.length === 0) return [];
  const found = await query<Joined>(
    db,
    sql`
      SELECT ${JOINED} FROM json_each(${JSON.stringify(ids)}) k
      CROSS JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = k.value ${LINK_OF}`,
  );
  return found.map(asCandidate);
}

/** Reads the contact and account to which each of these CRM records is linked. Throws the errors of `readOf`. */
export async function contactsLinkedTo(
  env: Cloudflare.Env,
  tenantId: string,
  crmIds: readonly string[],
): Promise<{ linked: Map<string, string>; account: Account }> {
  const { rows, account } = await readOf<{ crmId: string; contactId: string }>(
    env,
    tenantId,
    sql`
      SELECT l.crm_id AS crmId, l.contact_id AS contactId FROM json_each(${JSON.stringify(crmIds)}) k
      CROSS JOIN crm_links l ON l.tenant_id = ${tenantId} AND l.crm_id = k.value`,
  );
  return { linked: new Map(rows.map(({ crmId, contactId }) => [crmId, contactId])), account };
}

/** A link to write. */
export interface LinkWrite {
  contactId: string;
  crmId: string;
  /** The contact's revision whose values the CRM has after this write. */
  revision: number;
  /**
   * 1 if the same write copies changes into the contact's row. The copy increases the contact's revision by 1, unless another write has
   * come first.
   */
  takes: 0 | 1;
  known: Record<string, string>;
  /** The known parts of a name that is copied. The parts are written only if the contact's name still equals `instead_of`. */
  names?: { known: Record<string, string>; instead_of: string };
  /** The CRM's time at which the record was read; null if no record was read. */
  readAt: number | null;
}

/**
 * Returns the new known values of a record. If parts of the name are copied, `names` contains these parts and the name that they replace.
 */
export function newlyKnown(
  known: Record<string, string>,
  take: Properties,
  patch: ContactPatch | null,
): Pick<LinkWrite, "known" | "names"> {
  if (patch?.instead_of === undefined) return { known };
  const isTaken = (property: string) => property in take && (property === "firstname" || property === "lastname");
  const of = (taken: boolean) => Object.fromEntries(Object.entries(known).filter(([property]) => isTaken(property) === taken));
  return { known: of(false), names: { known: of(true), instead_of: patch.instead_of } };
}

/**
 * Writes links. A link with an older read time than the stored link changes nothing. A link's revision may decrease, because a push of an
 * older revision may have overwritten newer values in the CRM. In this case the contact must be sent again. The statement must run before
 * `takeOver`.
 */
export function writeLinks(tenantId: string, links: readonly LinkWrite[]): Statement[] {
  return sql.rows(links).map(
    (rows) => sql`
      INSERT INTO crm_links (tenant_id, contact_id, crm_id, state, revision, known, read_at, updated_at)
      SELECT ${tenantId}, r.value->>'contactId', r.value->>'crmId', 'linked',
        (r.value->>'revision') + iif(r.value->>'takes' AND c.revision = r.value->>'revision', 1, 0),
        json_patch(r.value->'known', iif(c.name = r.value->>'$.names.instead_of', r.value->'$.names.known', '{}')),
        r.value->>'readAt', ${sql.now}
      FROM json_each(${rows}) r LEFT JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = r.value->>'contactId' WHERE true
      ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
        crm_id = excluded.crm_id, state = 'linked', revision = excluded.revision,
        known = json_patch(crm_links.known, excluded.known), maybe = '[]', version = crm_links.version + 1,
        read_at = coalesce(excluded.read_at, crm_links.read_at), error = NULL,
        updated_at = excluded.updated_at
      WHERE excluded.read_at IS NULL OR crm_links.read_at IS NULL OR excluded.read_at >= crm_links.read_at`,
  );
}

/** A contact without a record in the CRM, as of the contact's revision. */
export interface Closed {
  contactId: string;
  revision: number;
  /** Values that the CRM may nevertheless have. By default there are no such values. */
  maybe?: readonly Properties[];
}

/** Marks that contacts have no record of their own in the CRM, and deletes the contacts' known values. */
export function closeLinks(tenantId: string, state: "merged" | "cut" | "none", links: readonly Closed[]): Statement[] {
  return sql.rows(links).map(
    (rows) => sql`
      INSERT INTO crm_links (tenant_id, contact_id, crm_id, state, revision, known, maybe, updated_at)
      SELECT ${tenantId}, value->>'contactId', NULL, ${state}, value->>'revision', '{}', coalesce(value->'maybe', '[]'), ${sql.now}
      FROM json_each(${rows}) WHERE true
      ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
        crm_id = NULL, state = excluded.state, revision = excluded.revision, known = '{}', maybe = excluded.maybe,
        version = crm_links.version + 1, error = NULL, updated_at = excluded.updated_at`,
  );
}

/**
 * Removes all values from the links of contacts that are being forgotten. The links' rows remain for a while, so that writes based on an
 * earlier read are refused.
 */
export function emptyLinks(tenantId: string, ids: readonly string[]): Statement {
  return sql`
    INSERT INTO crm_links (tenant_id, contact_id, crm_id, state, revision, known, updated_at)
    SELECT ${tenantId}, value, NULL, 'none', 0, '{}', ${sql.now} FROM json_each(${JSON.stringify(ids)}) WHERE true
    ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
      crm_id = NULL, state = 'none', revision = 0, known = '{}', maybe = '[]', version = crm_links.version + 1,
      read_at = NULL, error = NULL,
      updated_at = excluded.updated_at`;
}

/** The link of a contact whose texts were rewritten in our database and in the CRM. */
export interface RewrittenLink {
  contactId: string;
  /** JSON. */
  known: string;
  maybe: string;
  error: string | null;
  /** The contact's previous properties as text, if the same write rewrites them; null if the properties are unchanged. */
  properties: string | null;
}

/**
 * Rewrites the known values of a contact, before `rewriteProperties`. If the CRM had the contact's current revision, the link records the
 * contact's next revision. A missing link is created, so that a push which has read the contact before this write is refused.
 */
export function rewriteLink(tenantId: string, { contactId, known, maybe, error, properties }: RewrittenLink): Statement {
  return sql`
    INSERT INTO crm_links (tenant_id, contact_id, crm_id, state, revision, known, updated_at)
    VALUES (${tenantId}, ${contactId}, NULL, 'none', 0, '{}', ${sql.now})
    ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
      known = ${known}, maybe = ${maybe}, error = ${error}, version = crm_links.version + 1, updated_at = excluded.updated_at,
      revision = crm_links.revision + (SELECT count(*) FROM contacts c WHERE c.tenant_id = ${tenantId} AND c.contact_id = ${contactId}
        AND c.revision = crm_links.revision AND c.properties = ${properties})`;
}

/** Deletes the CRM data of forgotten contacts. */
export function removeLinks(tenantId: string, ids: readonly string[]): Statement[] {
  const theirs = sql`tenant_id = ${tenantId} AND contact_id IN ${sql.among(ids)}`;
  return [sql`DELETE FROM crm_links WHERE ${theirs}`, sql`DELETE FROM crm_failures WHERE ${theirs}`];
}

/**
 * Records the reason for which the CRM refused each contact. The known values in the links do not change, so that later pushes send the
 * contacts again.
 */
export function noteRefusals(tenantId: string, refusals: readonly { contactId: string }[]): Statement[] {
  return sql.rows(refusals).map(
    (rows) => sql`
      INSERT INTO crm_links (tenant_id, contact_id, crm_id, state, revision, known, error, updated_at)
      SELECT ${tenantId}, value->>'contactId', NULL, 'none', 0, '{}', json_remove(value, '$.contactId'), ${sql.now}
      FROM json_each(${rows}) WHERE true
      ON CONFLICT (tenant_id, contact_id) DO UPDATE SET error = excluded.error, updated_at = excluded.updated_at`,
  );
}

/** The changes in the CRM that are copied to a contact. */
export interface Take extends ContactPatch {
  contactId: string;
  readAt: number;
}

/**
 * Copies changes, property by property, into the current row, with a new revision for each row that changes. A change is skipped if it was
 * read before the link's last state. One half of a name is skipped if the other half has changed in our database. The next sync combines
 * both halves.
 */
export function takeOver(tenantId: string, takes: readonly Take[]): Statement[] {
  const taken = sql`iif(coalesce(t.value->>'instead_of', name) = name, coalesce(t.value->>'name', name), name)`;
  return sql.rows(takes).map(
    (rows) => sql`
      UPDATE contacts SET
        email = coalesce(t.value->>'email', email), name = ${taken},
        properties = json_patch(properties, t.value->'properties'),
        revision = revision + 1, updated_at = ${sql.now}, imported_by = 'crm'
      FROM json_each(${rows}) t
      WHERE contacts.tenant_id = ${tenantId} AND contacts.contact_id = t.value->>'contactId'
        AND (coalesce(t.value->>'email', email) <> email OR ${taken} <> name
          OR json_patch(properties, t.value->'properties') <> json(properties))
        AND NOT EXISTS (SELECT 1 FROM crm_links l
          WHERE l.tenant_id = ${tenantId} AND l.contact_id = t.value->>'contactId' AND l.read_at > t.value->>'readAt')`,
  );
}

function asCandidate({ crm_id, state, synced, known, maybe, version, error, revision, ...contact }: Joined): Candidate {
  const link = state && {
    crmId: crm_id,
    state,
    revision: synced ?? 0,
    known: JSON.parse(known ?? "{}"),
    maybe: JSON.parse(maybe ?? "[]"),
    version: version ?? 0,
    error,
  };
  return { contact: { ...asContact(contact), revision }, link };
}
