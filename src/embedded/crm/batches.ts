import * as z from "zod";
import { PORTAL_ID } from "../../providers/credentials.ts";
import { batchAnswer, type CrmAnswer, inputError, Refused } from "./answers.ts";
import type { Faults } from "./faults.ts";
import { type CrmObjectName, doesNotExist, TYPE_IDS, unknownProperties } from "./properties.ts";
import { propertiesOf, type RecordRow, type Records } from "./records.ts";

const MAX_INPUTS = 100;

const UpsertBody = z.object({
  inputs: z.array(
    z.object({
      id: z.string(),
      idProperty: z.string().optional(),
      objectWriteTraceId: z.string().optional(),
      properties: z.record(z.string(), z.string()),
    }),
  ),
});
const ReadBody = z.object({
  idProperty: z.string().optional(),
  inputs: z.array(z.object({ id: z.string() })),
  properties: z.array(z.string()),
  propertiesWithHistory: z.array(z.string()),
});
const UpdateBody = z.object({ inputs: z.array(z.object({ id: z.string(), properties: z.record(z.string(), z.string()) })) });
const AssociateBody = z.object({
  inputs: z.array(z.object({ from: z.object({ id: z.string() }), to: z.object({ id: z.string() }) })),
});
const EraseBody = z.object({ objectId: z.string() });
const MergeBody = z.object({ primaryObjectId: z.string(), objectIdToMerge: z.string() });

/** The context of a call to the embedded CRM. */
export interface Desk {
  sql: SqlStorage;
  records: Records;
  faults: Faults;
  idProperty: string;
  correlationId: string;
}

export function upsert(desk: Desk, object: CrmObjectName, body: unknown): CrmAnswer {
  const startedAt = Date.now();
  const { inputs } = parse(UpsertBody, body);
  const { idProperty, faults } = desk;
  requireDistinct(inputs.map(({ id }) => id));
  for (const { idProperty: named = "hs_object_id", properties } of inputs) {
    if (named !== idProperty) throw notUnique(object, named);
    const unknown = unknownProperties(object, idProperty, properties);
    if (unknown.length > 0) throw doesNotExist(unknown);
  }
  const refused = faults.refusesBatch(inputs.map(({ id }) => id));
  if (refused) throw new Refused(400, refused.category, refused.message);

  const results: object[] = [];
  const errors: object[] = [];
  for (const { id, objectWriteTraceId, properties } of inputs) {
    try {
      const fault = faults.takeRecord(id);
      if (fault) throw fault;
      const { row, created } = desk.records.upsert(object, id, properties);
      results.push({ ...view(row, Object.keys(propertiesOf(row))), new: created, ...(objectWriteTraceId && { objectWriteTraceId }) });
    } catch (error) {
      // If the failed input has no `objectWriteTraceId`, HubSpot cannot report which input failed, so HubSpot refuses the whole batch.
      if (!(error instanceof Refused) || objectWriteTraceId === undefined) throw error;
      const context = { ...error.context, objectWriteTraceId: [objectWriteTraceId] };
      errors.push(inputError(new Refused(error.status, error.category, error.message, context), desk.correlationId));
    }
  }
  return batchAnswer(results, errors, startedAt);
}

/** Changes contacts, which the request selects by the CRM's ids. */
export function update({ records, idProperty, correlationId }: Desk, body: unknown): CrmAnswer {
  const startedAt = Date.now();
  const { inputs } = parse(UpdateBody, body);
  requireDistinct(inputs.map(({ id }) => id));
  const unknown = inputs.flatMap(({ properties }) => unknownProperties("contacts", idProperty, properties));
  if (unknown.length > 0) throw doesNotExist(unknown);
  const found = inputs.map(({ id, properties }) => ({ id, properties, row: records.find("contacts", id) }));
  const missing = found.filter(({ row }) => !row).map(({ id }) => id);
  const results = found.flatMap(({ row, properties }) =>
    row ? [view(records.change(row, properties, "INTEGRATION"), Object.keys(properties))] : [],
  );
  const gone = new Refused(404, "OBJECT_NOT_FOUND", "Could not get some objects, they may be deleted or not exist.", { ids: missing });
  return batchAnswer(results, missing.length > 0 ? [inputError(gone, correlationId)] : [], startedAt);
}

export function read(desk: Desk, object: CrmObjectName, body: unknown): CrmAnswer {
  const startedAt = Date.now();
  const { idProperty, inputs, properties } = parse(ReadBody, body);
  requireDistinct(inputs.map(({ id }) => id));
  if (idProperty !== undefined && idProperty !== desk.idProperty) throw notUnique(object, idProperty);
  const found = new Map<number, RecordRow>();
  const missing: string[] = [];
  for (const { id } of inputs) {
    const row = idProperty === undefined ? desk.records.find(object, id) : desk.records.named(object, id);
    if (row) found.set(row.id, row);
    else missing.push(id);
  }
  const gone = new Refused(
    404,
    "OBJECT_NOT_FOUND",
    "Could not get some objects, they may be deleted or not exist. Check that ids are valid.",
    {
      ids: missing,
    },
  );
  const results = [...found.values()].map((row) => view(row, properties));
  return batchAnswer(results, missing.length > 0 ? [inputError(gone, desk.correlationId)] : [], startedAt);
}

export function associate({ sql, records, correlationId }: Desk, body: unknown): CrmAnswer {
  const startedAt = Date.now();
  const { inputs } = parse(AssociateBody, body);
  const results: object[] = [];
  const errors: object[] = [];
  for (const { from, to } of inputs) {
    const [contact, company] = [records.find("contacts", from.id), records.find("companies", to.id)];
    if (contact && company) {
      sql.exec("INSERT OR IGNORE INTO associations (contact, company) VALUES (?, ?)", contact.id, company.id);
      const ends = { from: { id: String(contact.id) }, to: { id: String(company.id) } };
      results.push({ ...ends, associationSpec: { associationCategory: "HUBSPOT_DEFINED", associationTypeId: 279 } });
      results.push({ from: ends.to, to: ends.from, associationSpec: { associationCategory: "HUBSPOT_DEFINED", associationTypeId: 280 } });
    } else {
      const context = { fromObjectId: [from.id], toObjectId: [to.id] };
      errors.push(inputError(new Refused(404, "OBJECT_NOT_FOUND", "One of the two records does not exist.", context), correlationId));
    }
  }
  return batchAnswer(results, errors, startedAt);
}

export function merge({ records }: Desk, body: unknown): CrmAnswer {
  const { primaryObjectId, objectIdToMerge } = parse(MergeBody, body);
  const row = records.merge(primaryObjectId, objectIdToMerge);
  return { status: 200, body: view(row, Object.keys(propertiesOf(row))) };
}

/** Deletes a contact, all records that were merged into the contact, and the contact's pending messages. */
export function erase({ sql, records }: Desk, body: unknown): CrmAnswer {
  const { objectId } = parse(EraseBody, body);
  const row = records.find("contacts", objectId);
  if (!row) throw new Refused(404, "OBJECT_NOT_FOUND", `Object not found. objectId: ${objectId}`);
  sql.exec("DELETE FROM associations WHERE contact = ?", row.id);
  records.erase(row);
  return { status: 204, body: {} };
}

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw new Refused(400, "VALIDATION_ERROR", `Invalid input JSON: ${z.prettifyError(parsed.error)}`);
  const { inputs } = parsed.data as { inputs?: unknown[] };
  if (inputs && (inputs.length === 0 || inputs.length > MAX_INPUTS)) {
    throw new Refused(400, "VALIDATION_ERROR", `The batch has ${inputs.length} inputs; it must have 1 to ${MAX_INPUTS}.`);
  }
  return parsed.data;
}

function notUnique(object: CrmObjectName, property: string): Refused {
  const message = `Unable to perform update/upsert by non-unique ${TYPE_IDS[object]} property ${property} in portal ID ${PORTAL_ID}`;
  return new Refused(400, "VALIDATION_ERROR", message);
}

function requireDistinct(ids: readonly string[]): void {
  const twice = [...new Set(ids.filter((id, index) => ids.indexOf(id) !== index))];
  if (twice.length === 0) return;
  throw new Refused(400, "VALIDATION_ERROR", `Duplicate IDs found in batch input: [${twice.join(", ")}]. IDs must be unique`, {
    ids: twice,
  });
}

/** Converts a record to HubSpot's format: the requested properties and the standard properties. */
function view(row: RecordRow, names: readonly string[]): object {
  const properties = propertiesOf(row);
  const [createdAt, updatedAt] = [new Date(row.created_at).toISOString(), new Date(row.updated_at).toISOString()];
  const asked = Object.fromEntries(names.flatMap((name) => (properties[name] ? [[name, properties[name]]] : [])));
  return {
    id: String(row.id),
    properties: { ...asked, hs_object_id: String(row.id), createdate: createdAt, lastmodifieddate: updatedAt },
    createdAt,
    updatedAt,
    archived: row.archived === 1,
  };
}
