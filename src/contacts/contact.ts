import * as z from "zod";
import { now, query, type Statement, sql } from "../engine/index.ts";

/** Characters of a property's text, and of a name. */
export const MAX_VALUE_CHARACTERS = 2000;
export const MAX_NAME_CHARACTERS = 200;

const value = z.union([z.string().max(MAX_VALUE_CHARACTERS), z.number(), z.boolean(), z.null()]);

export const emailSchema = z.email().max(254);

export const contactSchema = z.strictObject({
  contact_id: z.string().min(1).max(200),
  email: emailSchema,
  name: z.string().max(MAX_NAME_CHARACTERS).default(""),
  properties: z
    .record(z.string().min(1).max(64), value)
    .refine((properties) => Object.keys(properties).length <= 50, "has more than 50 entries")
    .default({}),
});

export type Contact = z.infer<typeof contactSchema>;

/** A contact, how often it was written, and by whom last. */
export interface KeptContact extends Contact {
  revision: number;
  updated_at: number;
  /** A batch, or `crm`. */
  imported_by: string;
}

/** A contact as its row holds it. */
export interface StoredContact extends Omit<Contact, "properties"> {
  properties: string;
}

export function asContact({ contact_id, email, name, properties }: StoredContact): Contact {
  return { contact_id, email, name, properties: JSON.parse(properties) };
}

/** The tenant's contacts behind an id, in the order of their ids. */
export async function listContacts(db: D1Database, tenantId: string, after: string, limit: number): Promise<KeptContact[]> {
  const found = await query<StoredContact & Omit<KeptContact, keyof Contact>>(
    db,
    sql`
      SELECT contact_id, email, name, properties, revision, updated_at, imported_by FROM contacts
      WHERE tenant_id = ${tenantId} AND contact_id > ${after} ORDER BY contact_id LIMIT ${limit}`,
  );
  return found.map((row) => ({ ...row, ...asContact(row) }));
}

/** These contacts of the tenant, as many as there are. */
export async function contactsByIds(db: D1Database, tenantId: string, ids: readonly string[]): Promise<Contact[]> {
  const found = await query<StoredContact>(
    db,
    sql`
      SELECT c.contact_id, c.email, c.name, c.properties FROM json_each(${JSON.stringify(ids)}) k
      CROSS JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = k.value`,
  );
  return found.map(asContact);
}

/** Each of these rows (JSON) is one write of its contact, also when nothing changes: `revision` counts the writes. */
export function writeContacts(tenantId: string, by: string, rows: string): Statement {
  return sql`
    INSERT INTO contacts (tenant_id, contact_id, email, name, properties, revision, updated_at, imported_by)
    SELECT ${tenantId}, value->>'contact_id', value->>'email', value->>'name', value->'properties', 1, ${now}, ${by}
    FROM json_each(${rows}) WHERE true
    ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
      email = excluded.email, name = excluded.name, properties = excluded.properties, revision = contacts.revision + 1,
      updated_at = excluded.updated_at, imported_by = excluded.imported_by`;
}

/** A new contact; nothing if there is one with its id. */
export function createContact(tenantId: string, by: string, { contact_id, email, name, properties }: Contact): Statement {
  return sql`
    INSERT INTO contacts (tenant_id, contact_id, email, name, properties, revision, updated_at, imported_by)
    VALUES (${tenantId}, ${contact_id}, ${email}, ${name}, ${JSON.stringify(properties)}, 1, ${now}, ${by})
    ON CONFLICT (tenant_id, contact_id) DO NOTHING`;
}
