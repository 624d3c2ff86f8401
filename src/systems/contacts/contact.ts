import { query, type Statement, sql, texts } from "millrace";
import * as z from "zod";

/** Maximum characters of a contact's id, of a property's text, and of a name. */
export const MAX_ID_CHARACTERS = 200;
export const MAX_VALUE_CHARACTERS = 2000;
export const MAX_NAME_CHARACTERS = 200;
/**
 * Maximum number of properties of a contact, from all sources. A row of a file may have the same number of properties, so that an export
 * can be imported.
 */
export const MAX_PROPERTIES = 200;

const value = z.union([z.string().max(MAX_VALUE_CHARACTERS), z.number(), z.boolean(), z.null()]);

/** The schema of the id of a new contact. */
export const newContactId = texts.chosenName(MAX_ID_CHARACTERS);
/**
 * The schema of the id of an existing contact. Control characters are valid, because rows of earlier deployments may contain such ids and
 * must be removable.
 */
export const keptContactId = z
  .string()
  .min(1)
  .max(MAX_ID_CHARACTERS)
  .refine((id) => !id.includes("\0"), "must not contain NUL");

export const emailSchema = z.email().max(254);

/** The row of a contact in a file. Fields of a contact that are absent in the row remain unchanged. */
export const contactRowSchema = z.strictObject({
  contact_id: newContactId,
  email: emailSchema,
  name: z.string().max(MAX_NAME_CHARACTERS).optional(),
  properties: z
    .record(z.string().min(1).max(64), value)
    .refine((properties) => Object.keys(properties).length <= MAX_PROPERTIES, `has more than ${MAX_PROPERTIES} entries`)
    .default({}),
});

export type ContactRow = z.infer<typeof contactRowSchema>;

export interface Contact extends ContactRow {
  name: string;
}

/** A contact, with the number and the author of the contact's writes. */
export interface KeptContact extends Contact {
  revision: number;
  updated_at: number;
  /** The last writer of the contact: a batch, or `crm`. */
  imported_by: string;
}

/** A contact as it is stored in its database row. */
export interface StoredContact extends Omit<Contact, "properties"> {
  properties: string;
}

export function asContact({ contact_id, email, name, properties }: StoredContact): Contact {
  return { contact_id, email, name, properties: JSON.parse(properties) };
}

/** Lists the tenant's contacts after an id, in the order of ids. With `only`, the list contains only this contact. */
export async function listContacts(
  db: D1Database,
  tenantId: string,
  { after, only }: { after: string; only: string | undefined },
  limit: number,
): Promise<KeptContact[]> {
  const found = await query<StoredContact & Omit<KeptContact, keyof Contact>>(
    db,
    sql`
      SELECT contact_id, email, name, properties, revision, updated_at, imported_by FROM contacts
      WHERE tenant_id = ${tenantId} AND contact_id > ${after} ${only === undefined ? sql`` : sql`AND contact_id = ${only}`}
      ORDER BY contact_id LIMIT ${limit}`,
  );
  return found.map((row) => ({ ...row, ...asContact(row) }));
}

/** Reads the given contacts; contacts that do not exist are omitted. */
export async function contactsByIds(db: D1Database, tenantId: string, ids: readonly string[]): Promise<Contact[]> {
  const found = await query<StoredContact>(
    db,
    sql`
      SELECT c.contact_id, c.email, c.name, c.properties FROM json_each(${JSON.stringify(ids)}) k
      CROSS JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = k.value`,
  );
  return found.map(asContact);
}

/** Selects the rows (JSON) whose write would give a contact more than `MAX_PROPERTIES` properties. */
export function overfullContacts(tenantId: string, rows: string): Statement {
  return sql`
    SELECT c.contact_id AS id FROM json_each(${rows}) r
    CROSS JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = r.value->>'contact_id'
    WHERE (SELECT count(*) FROM (SELECT key FROM json_each(c.properties)
      UNION SELECT key FROM json_each(r.value, '$.properties'))) > ${MAX_PROPERTIES}`;
}

/** SQL expression that converts a scalar from json_each to JSON. */
const JSON_OF = sql.fragment("json(CASE type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE json_quote(atom) END)");

/**
 * Writes each row (JSON) to its contact. A row without changes is written too, because `revision` counts the writes of a contact. A row
 * sets only the properties and the name that the row contains. An empty property is stored as empty. Rows whose `pseudonym` belongs to a
 * forgotten contact are skipped.
 */
export function writeContacts(tenantId: string, by: string, rows: string): Statement {
  return sql`
    INSERT INTO contacts (tenant_id, contact_id, email, name, properties, revision, updated_at, imported_by)
    SELECT ${tenantId}, r.value->>'contact_id', r.value->>'email', coalesce(r.value->>'name', c.name, ''), r.value->'properties', 1, ${sql.now}, ${by}
    FROM json_each(${rows}) r LEFT JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = r.value->>'contact_id'
    WHERE NOT EXISTS (SELECT 1 FROM forgotten f WHERE f.tenant_id = ${tenantId} AND f.pseudonym = r.value->>'pseudonym')
    ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
      email = excluded.email, name = excluded.name, revision = contacts.revision + 1, updated_at = excluded.updated_at,
      imported_by = excluded.imported_by,
      properties = (SELECT json_group_object(key, ${JSON_OF}) FROM (
        SELECT key, type, atom FROM json_each(contacts.properties) WHERE key NOT IN (SELECT key FROM json_each(excluded.properties))
        UNION ALL SELECT key, type, atom FROM json_each(excluded.properties)))`;
}

/** Creates a contact, unless its id was forgotten. The write fails if a contact with this id exists. */
export function createContact(
  tenantId: string,
  by: string,
  { contact_id, email, name, properties, pseudonym }: Contact & { pseudonym: string },
): Statement {
  return sql`
    INSERT INTO contacts (tenant_id, contact_id, email, name, properties, revision, updated_at, imported_by)
    SELECT ${tenantId}, ${contact_id}, ${email}, ${name}, ${JSON.stringify(properties)}, 1, ${sql.now}, ${by}
    WHERE NOT EXISTS (SELECT 1 FROM forgotten f WHERE f.tenant_id = ${tenantId} AND f.pseudonym = ${pseudonym})`;
}

/** Rewrites a contact's properties if the properties have not changed since the read. */
export function rewriteProperties(tenantId: string, contactId: string, was: string, is: string): Statement {
  return sql`
    UPDATE contacts SET properties = ${is}, revision = revision + 1, updated_at = ${sql.now}
    WHERE tenant_id = ${tenantId} AND contact_id = ${contactId} AND properties = ${was}`;
}

/** Removes forgotten contacts. */
export function removeContacts(tenantId: string, ids: readonly string[]): Statement {
  return sql`DELETE FROM contacts WHERE tenant_id = ${tenantId} AND contact_id IN ${sql.among(ids)}`;
}
