import { atomically, sql } from "millrace";
import {
  asContact,
  type ContactRow,
  contactRowSchema,
  contactsByIds,
  MAX_PROPERTIES,
  overfullContacts,
  type StoredContact,
  writeContacts,
} from "../contacts/contact.ts";
import { FORGOTTEN, forgottenAmong, pseudonymOf } from "../contacts/forgotten.ts";
import type { Dataset } from "./dataset.ts";
import { readJson } from "./jsonl.ts";
import { pageOf } from "./page.ts";
import { danglingAmong } from "./references.ts";

/**
 * The dataset of contacts with names and addresses, from the table `contacts`. In CSV, the column `properties` contains a JSON object, and
 * every further column is also a property. An empty cell sets no property.
 */
export const contacts: Dataset<ContactRow> = {
  name: "contacts",
  columns: ["contact_id", "email", "name", "properties"],
  required: ["contact_id", "email"],
  open: true,
  chunkRows: 1000,
  schema: contactRowSchema,
  compared: { email: null, name: "", properties: null },
  fromCells({ contact_id, email, name, properties, ...others }) {
    const further = Object.entries(others).filter(([, cell]) => cell !== "");
    const given = properties ? jsonObject(properties) : {};
    const twice = further.find(([column]) => Object.hasOwn(given, column));
    if (twice) throw new Error(`properties: ${twice[0]} is also a separate column: set it in one of the two`);
    return { contact_id, email, name: name || undefined, properties: { ...given, ...Object.fromEntries(further) } };
  },
  toCells: ({ contact_id, email, name, properties }) => [
    contact_id,
    email,
    name ?? "",
    Object.keys(properties).length > 0 ? JSON.stringify(properties) : "",
  ],
  keyOf: ({ contact_id }) => contact_id,
  async take(env, { batchId, envelope: { tenant_id: tenantId } }, rows) {
    const forgotten = await forgottenAmong(
      env,
      tenantId,
      rows.map(({ contact_id: id }) => id),
    );
    const overfull = await atomically(
      env.DB,
      sql.rows(rows).map((chunk) => overfullContacts(tenantId, chunk)),
    );
    const dangling = await danglingAmong(
      env.PAYLOADS,
      tenantId,
      rows.map(({ properties }) => properties),
    );
    const ids = new Set(overfull.flat().map(({ id }) => id));
    const refused = new Map(
      rows.flatMap(({ contact_id: id }, index) => {
        if (forgotten.has(id)) return [[index, FORGOTTEN]];
        if (ids.has(id)) return [[index, `properties: would be more than ${MAX_PROPERTIES}`]];
        const missing = dangling.get(index);
        return missing === undefined ? [] : [[index, `properties.${missing}`]];
      }),
    );
    const taken = namedOnce(rows.filter((_, index) => !refused.has(index)));
    const named = taken.map((row) => ({ ...row, pseudonym: pseudonymOf(env, tenantId, row.contact_id) }));
    return { statements: sql.rows(named).map((chunk) => writeContacts(tenantId, batchId, chunk)), refused };
  },
  ours: ({ DB }, tenantId, keys) => contactsByIds(DB, tenantId, keys),
  dated: false,
  page: async ({ DB }, tenantId, { after }) => {
    const { rows, next } = await pageOf<StoredContact>(
      DB,
      sql`
        SELECT contact_id, email, name, properties, octet_length(properties) AS bytes FROM contacts
        WHERE tenant_id = ${tenantId} AND contact_id > ${after ?? ""}`,
      sql.fragment("contact_id"),
      ({ contact_id }) => contact_id,
    );
    return { rows: rows.map(asContact), next };
  },
};

/**
 * Within one statement, a row does not see the writes of other rows. Therefore a row without a name gets the name from the previous row of
 * the same contact.
 */
function namedOnce(rows: readonly ContactRow[]): ContactRow[] {
  const names = new Map<string, string>();
  return rows.map((row) => {
    const name = row.name ?? names.get(row.contact_id);
    if (name === undefined) return row;
    names.set(row.contact_id, name);
    return { ...row, name };
  });
}

function jsonObject(text: string): object {
  const parsed = readJson(text, "properties: ");
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new Error("properties: must be a JSON object");
  return parsed;
}
