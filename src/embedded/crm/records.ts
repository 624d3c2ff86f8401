import { Refused } from "./answers.ts";
import { announce, type ChangeSource, type ContactEvent } from "./events.ts";
import { type CrmObjectName, checkValues } from "./properties.ts";

export interface RecordRow extends Record<string, SqlStorageValue> {
  id: number;
  object: CrmObjectName;
  key: string | null;
  email: string | null;
  properties: string;
  created_at: number;
  updated_at: number;
  archived: number;
  merged_into: number | null;
}

/** The stored records of one embedded CRM. Errors are thrown, so that the caller's transaction is rolled back. */
export class Records {
  readonly #sql: SqlStorage;
  readonly #idProperty: string;
  readonly #portalId: number;

  constructor(sql: SqlStorage, idProperty: string, portalId: number) {
    this.#sql = sql;
    this.#idProperty = idProperty;
    this.#portalId = portalId;
  }

  /** Creates the record with this key. If the record exists, the method changes those of the record's properties that differ. */
  upsert(object: CrmObjectName, key: string, properties: Record<string, string>): { row: RecordRow; created: boolean } {
    checkValues(properties);
    const found = this.named(object, key);
    if (found) return { row: this.change(found, properties, "INTEGRATION"), created: false };
    return { row: this.create(object, { ...properties, [this.#idProperty]: key }, "INTEGRATION"), created: true };
  }

  create(object: CrmObjectName, properties: Record<string, string>, source: ChangeSource): RecordRow {
    checkValues(properties);
    const email = this.#freeEmail(object, properties.email, undefined);
    const now = Date.now();
    const row = this.#one(
      "INSERT INTO records (object, key, email, properties, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?) RETURNING *",
      object,
      properties[this.#idProperty] || null,
      email,
      JSON.stringify(properties),
      now,
      now,
    ) as RecordRow;
    this.#tell(row, source, [{ subscriptionType: "contact.creation", objectId: row.id }, ...changesOf(row.id, {}, properties)]);
    return row;
  }

  /** Changes the properties of a record. As in HubSpot, an empty value clears the property. */
  change(row: RecordRow, properties: Record<string, string>, source: ChangeSource): RecordRow {
    checkValues(properties);
    const before = propertiesOf(row);
    const changes = changesOf(row.id, before, properties);
    if (changes.length === 0) return row;
    const after = { ...before, ...properties };
    const email = this.#freeEmail(row.object, after.email, row.id);
    const key = after[this.#idProperty] || null;
    const updated = this.#one(
      "UPDATE records SET properties = ?, email = ?, key = ?, updated_at = max(?, updated_at + 1) WHERE id = ? RETURNING *",
      JSON.stringify(after),
      email,
      key,
      Date.now(),
      row.id,
    ) as RecordRow;
    this.#tell(updated, source, changes);
    return updated;
  }

  /** Finds the live record with an id. If that record was merged into another record, the method returns the other record. */
  find(object: CrmObjectName, id: string): RecordRow | undefined {
    if (!/^\d{1,15}$/.test(id)) return undefined;
    let row = this.#one("SELECT * FROM records WHERE object = ? AND id = ?", object, Number(id));
    while (row?.merged_into != null) row = this.#one("SELECT * FROM records WHERE id = ?", row.merged_into);
    return row?.archived === 0 ? row : undefined;
  }

  /** Finds the live record whose unique id property has this value. */
  named(object: CrmObjectName, key: string): RecordRow | undefined {
    return this.#one("SELECT * FROM records WHERE object = ? AND key = ? AND archived = 0", object, key);
  }

  /**
   * Merges two contacts into a new contact, as HubSpot does since 2025. Both old ids lead to the new contact. If the values of a property
   * differ, the new contact gets the value of the primary contact.
   */
  merge(primaryId: string, mergedId: string): RecordRow {
    const [primary, merged] = [this.find("contacts", primaryId), this.find("contacts", mergedId)];
    if (!primary || !merged) throw new Refused(404, "OBJECT_NOT_FOUND", `Contact ${primary ? mergedId : primaryId} does not exist.`);
    if (primary.id === merged.id) throw new Refused(400, "VALIDATION_ERROR", `Contacts ${primaryId} and ${mergedId} are already merged.`);
    this.#sql.exec("UPDATE records SET archived = 1 WHERE id IN (?, ?)", primary.id, merged.id);
    const filled = Object.entries(propertiesOf(primary)).filter(([, value]) => value !== "");
    const values = { ...propertiesOf(merged), ...Object.fromEntries(filled) };
    const now = Date.now();
    const row = this.#one(
      "INSERT INTO records (object, key, email, properties, created_at, updated_at) VALUES ('contacts', ?, ?, ?, ?, ?) RETURNING *",
      values[this.#idProperty] || null,
      values.email?.toLowerCase() || null,
      JSON.stringify(values),
      primary.created_at,
      now,
    ) as RecordRow;
    this.#sql.exec("UPDATE records SET merged_into = ?, updated_at = ? WHERE id IN (?, ?)", row.id, now, primary.id, merged.id);
    for (const { id } of [primary, merged]) {
      this.#sql.exec("INSERT OR IGNORE INTO associations SELECT ?, company FROM associations WHERE contact = ?", row.id, id);
      this.#sql.exec("DELETE FROM associations WHERE contact = ?", id);
    }
    const ids = { primaryObjectId: primary.id, mergedObjectIds: [merged.id], newObjectId: row.id };
    this.#tell(row, "INTEGRATION", [{ subscriptionType: "contact.merge", objectId: row.id, ...ids }]);
    return row;
  }

  archive(row: RecordRow, source: ChangeSource): void {
    this.#sql.exec("UPDATE records SET archived = 1, updated_at = ? WHERE id = ?", Date.now(), row.id);
    this.#tell(row, source, [{ subscriptionType: "contact.deletion", objectId: row.id }]);
  }

  /**
   * Deletes a contact of the embedded CRM. The method also deletes pending messages about the contact's values, and stores an event about
   * the deletion.
   */
  erase(row: RecordRow): void {
    const among =
      "(WITH RECURSIVE lost (id) AS (SELECT ?1 UNION SELECT r.id FROM records r JOIN lost ON r.merged_into = lost.id) SELECT id FROM lost)";
    this.#sql.exec(`DELETE FROM events WHERE body->>'objectId' IN ${among}`, row.id);
    this.#sql.exec(`DELETE FROM records WHERE id IN ${among}`, row.id);
    this.#tell(row, "INTEGRATION", [{ subscriptionType: "contact.privacyDeletion", objectId: row.id }]);
  }

  #freeEmail(object: CrmObjectName, email: string | undefined, self: number | undefined): string | null {
    const address = object === "contacts" ? email?.toLowerCase() || null : null;
    const taken = address && this.#one("SELECT * FROM records WHERE object = 'contacts' AND email = ? AND archived = 0", address);
    if (taken && taken.id !== self) {
      throw new Refused(409, "CONFLICT", `Contact already exists. Existing ID: ${taken.id}`, { existingId: [String(taken.id)] });
    }
    return address;
  }

  #tell(row: RecordRow, source: ChangeSource, events: readonly ContactEvent[]): void {
    if (row.object === "contacts") announce(this.#sql, this.#portalId, source, events);
  }

  #one(statement: string, ...bindings: SqlStorageValue[]): RecordRow | undefined {
    return this.#sql.exec<RecordRow>(statement, ...bindings).toArray()[0];
  }
}

export function propertiesOf({ properties }: RecordRow): Record<string, string> {
  return JSON.parse(properties);
}

function changesOf(objectId: number, before: Record<string, string>, after: Record<string, string>): ContactEvent[] {
  return Object.entries(after)
    .filter(([name, value]) => (before[name] ?? "") !== value)
    .map(([propertyName, propertyValue]) => ({ subscriptionType: "contact.propertyChange", objectId, propertyName, propertyValue }));
}
