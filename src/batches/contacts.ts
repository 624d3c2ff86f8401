import * as z from "zod";
import { now, query, rowChunks, type Statement, sql } from "../engine/index.ts";
import type { Dataset } from "./dataset.ts";
import { readJson } from "./jsonl.ts";
import { pageOf } from "./page.ts";

const value = z.union([z.string().max(2000), z.number(), z.boolean(), z.null()]);

const contactSchema = z.strictObject({
  contact_id: z.string().min(1).max(200),
  email: z.email().max(254),
  name: z.string().max(200).default(""),
  properties: z
    .record(z.string().min(1).max(64), value)
    .refine((properties) => Object.keys(properties).length <= 50, "has more than 50 entries")
    .default({}),
});

type Contact = z.infer<typeof contactSchema>;

/** People and their addresses, in the table `contacts`. In CSV, `properties` is a JSON object, and every further column is a property too. */
export const contacts: Dataset<Contact> = {
  name: "contacts",
  columns: ["contact_id", "email", "name", "properties"],
  required: ["contact_id", "email"],
  open: true,
  chunkRows: 1000,
  schema: contactSchema,
  compared: ["email", "name", "properties"],
  fromCells({ contact_id, email, name, properties, ...others }) {
    const further = Object.entries(others).filter(([, cell]) => cell !== "");
    return { contact_id, email, name, properties: { ...(properties ? jsonObject(properties) : {}), ...Object.fromEntries(further) } };
  },
  toCells: ({ contact_id, email, name, properties }) => [
    contact_id,
    email,
    name,
    Object.keys(properties).length > 0 ? JSON.stringify(properties) : "",
  ],
  keyOf: ({ contact_id }) => contact_id,
  take: async (_env, { batchId, envelope }, rows) => ({
    statements: rowChunks(rows).map((chunk) => upsert(envelope.tenant_id, batchId, chunk)),
  }),
  ours: async (db, tenantId, keys) => {
    const found = await query<Stored>(
      db,
      sql`
        SELECT c.contact_id, c.email, c.name, c.properties FROM json_each(${JSON.stringify(keys)}) k
        CROSS JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = k.value`,
    );
    return found.map(asContact);
  },
  page: async (db, tenantId, after) => {
    const { rows, next } = await pageOf<Stored>(
      db,
      sql`
        SELECT contact_id, email, name, properties, octet_length(properties) AS bytes FROM contacts
        WHERE tenant_id = ${tenantId} AND contact_id > ${after ?? ""}`,
      { fragment: "contact_id" },
      ({ contact_id }) => contact_id,
    );
    return { rows: rows.map(asContact), next };
  },
};

/** A contact, and how often which batch has written it. */
export interface KeptContact extends Contact {
  revision: number;
  updated_at: number;
  imported_by: string;
}

/** The tenant's contacts behind an id, in the order of their ids. */
export async function listContacts(db: D1Database, tenantId: string, after: string, limit: number): Promise<KeptContact[]> {
  const found = await query<Stored & Omit<KeptContact, keyof Contact>>(
    db,
    sql`
      SELECT contact_id, email, name, properties, revision, updated_at, imported_by FROM contacts
      WHERE tenant_id = ${tenantId} AND contact_id > ${after} ORDER BY contact_id LIMIT ${limit}`,
  );
  return found.map((row) => ({ ...row, ...asContact(row) }));
}

/** Each row of the file is one write of its contact, also when nothing changes: `revision` counts the writes. */
function upsert(tenantId: string, batchId: string, rows: string): Statement {
  return sql`
    INSERT INTO contacts (tenant_id, contact_id, email, name, properties, revision, updated_at, imported_by)
    SELECT ${tenantId}, value->>'contact_id', value->>'email', value->>'name', value->'properties', 1, ${now}, ${batchId}
    FROM json_each(${rows}) WHERE true
    ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
      email = excluded.email, name = excluded.name, properties = excluded.properties, revision = contacts.revision + 1,
      updated_at = excluded.updated_at, imported_by = excluded.imported_by`;
}

interface Stored extends Omit<Contact, "properties"> {
  properties: string;
}

function asContact({ contact_id, email, name, properties }: Stored): Contact {
  return { contact_id, email, name, properties: JSON.parse(properties) };
}

function jsonObject(text: string): object {
  const parsed = readJson(text, "properties: ");
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new Error("properties: must be a JSON object");
  return parsed;
}
