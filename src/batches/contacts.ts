import { asContact, type Contact, contactSchema, contactsByIds, type StoredContact, writeContacts } from "../contacts/contact.ts";
import { fragment, rowChunks, sql } from "../engine/index.ts";
import type { Dataset } from "./dataset.ts";
import { readJson } from "./jsonl.ts";
import { pageOf } from "./page.ts";

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
    const given = properties ? jsonObject(properties) : {};
    const twice = further.find(([column]) => Object.hasOwn(given, column));
    if (twice) throw new Error(`properties: ${twice[0]} has a column of its own too: say it in one of the two`);
    return { contact_id, email, name, properties: { ...given, ...Object.fromEntries(further) } };
  },
  toCells: ({ contact_id, email, name, properties }) => [
    contact_id,
    email,
    name,
    Object.keys(properties).length > 0 ? JSON.stringify(properties) : "",
  ],
  keyOf: ({ contact_id }) => contact_id,
  take: async (_env, { batchId, envelope }, rows) => ({
    statements: rowChunks(rows).map((chunk) => writeContacts(envelope.tenant_id, batchId, chunk)),
  }),
  ours: ({ DB }, tenantId, keys) => contactsByIds(DB, tenantId, keys),
  dated: false,
  page: async ({ DB }, tenantId, { after }) => {
    const { rows, next } = await pageOf<StoredContact>(
      DB,
      sql`
        SELECT contact_id, email, name, properties, octet_length(properties) AS bytes FROM contacts
        WHERE tenant_id = ${tenantId} AND contact_id > ${after ?? ""}`,
      fragment("contact_id"),
      ({ contact_id }) => contact_id,
    );
    return { rows: rows.map(asContact), next };
  },
};

function jsonObject(text: string): object {
  const parsed = readJson(text, "properties: ");
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new Error("properties: must be a JSON object");
  return parsed;
}
