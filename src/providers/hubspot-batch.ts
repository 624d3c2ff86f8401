import { errors } from "millrace";
import type * as z from "zod";
import { CRM_FRESH_MS, type CrmAsRead, type CrmOutcome, type CrmRecord, type CrmRefusal } from "./crm.ts";
import { asRefusal, batchFault } from "./hubspot-refusal.ts";
import type { HubspotError, Upserted } from "./hubspot-wire.ts";
import type { Counterpart } from "./refusal.ts";

/** A record to send to HubSpot, and the position of the record's result in the list of results. */
export interface Sent extends CrmRecord {
  index: number;
}

/** The functions that send a batch to HubSpot and check its records for changes in the CRM. */
interface Calls {
  post: (records: readonly Sent[]) => Promise<z.infer<typeof Upserted>>;
  asRead?: CrmAsRead | undefined;
}
type Outcome = CrmOutcome | undefined;

const CHANGED: CrmRefusal = {
  retry: true,
  category: "CHANGED_MEANWHILE",
  message: "The record changed in the CRM during the search for another faulty record, and was not sent.",
  correlationId: null,
};

/** The error of a record that HubSpot's response omits. */
export const SILENT = "The CRM's response has no result for this record.";

/** Maximum number of calls to find the faulty records in one batch. The calls are enough to find five faulty records among a hundred. */
export const MAX_CALLS = 40;

/**
 * Upserts a batch of records and finds the faulty records. HubSpot reports most errors per record, but refuses a whole batch for some
 * errors (an unknown property, a duplicate key, a value validated up front). After such a refusal the connector splits the batch. If the
 * message names records, the connector separates the named records from the other records. Otherwise the connector halves the batch, until
 * each faulty record is alone. Only a record that was refused alone, or that HubSpot named, is refused permanently. A long search for
 * faulty records checks that the remaining records are unchanged since the app read them.
 */
export async function upsertBatch(
  counterpart: Counterpart,
  idProperty: string,
  records: readonly CrmRecord[],
  { post, asRead }: Calls,
): Promise<CrmOutcome[]> {
  const outcomes: Outcome[] = records.map(() => undefined);
  let parts: Sent[][] = records.length > 0 ? [records.map((record, index) => ({ ...record, index }))] : [];
  let reason = SILENT;
  let lookedAt = Date.now();

  for (let calls = 0; parts.length > 0 && calls < MAX_CALLS; calls++) {
    let part: Sent[] = [];
    try {
      if (asRead && Date.now() - lookedAt > CRM_FRESH_MS) {
        parts = await stillAsRead(parts, asRead, outcomes);
        lookedAt = Date.now();
      }
      // The newest part of the batch is sent first, so that a search that ends early has found the results of some records. A later search
      // then has fewer records.
      part = parts.shift() ?? [];
      if (part.length === 0) break;
      const answer = await post(part);
      const { left, fault } = settle(counterpart, idProperty, part, answer, outcomes);
      if (left.length > 0 && fault) parts.unshift(...cut(left, fault, counterpart, outcomes));
    } catch (error) {
      const fault = batchFault(error);
      if (!fault) {
        // Earlier results of the batch remain, and the remaining records get the call's error. If the first call fails, its error is
        // thrown.
        if (calls === 0) throw error;
        reason = errors.messageOf(error);
        break;
      }
      parts.unshift(...cut(part, fault, counterpart, outcomes));
    }
  }
  return records.map(({ key }, index) => outcomes[index] ?? unknown(key, reason));
}

/** Removes from the parts the records that changed in the CRM since the app read them. The caller reads and retries those records. */
async function stillAsRead(parts: readonly Sent[][], asRead: CrmAsRead, outcomes: Outcome[]): Promise<Sent[][]> {
  const same = await asRead(parts.flat().map(({ key }) => key));
  for (const { key, index } of parts.flat()) if (!same.has(key)) outcomes[index] = { key, state: "failed", ...CHANGED };
  return parts.map((part) => part.filter(({ key }) => same.has(key))).filter(({ length }) => length > 0);
}

/**
 * Stores the results of records that a response names. The function returns the remaining records. If the response contains an error that
 * names no record, the function also returns that error.
 */
function settle(
  counterpart: Counterpart,
  idProperty: string,
  part: readonly Sent[],
  { results, errors }: z.infer<typeof Upserted>,
  outcomes: Outcome[],
): { left: Sent[]; fault: HubspotError | undefined } {
  const byTrace = new Map(part.map((record) => [traceOf(record), record]));
  const byKey = new Map(part.map((record) => [record.key, record]));
  for (const { id, new: created, objectWriteTraceId, properties } of results) {
    const record = byTrace.get(objectWriteTraceId ?? "") ?? byKey.get(properties[idProperty] ?? "");
    if (record) outcomes[record.index] = { key: record.key, state: "done", crmId: id, created };
  }
  let nameless: HubspotError | undefined;
  for (const error of errors) {
    const named = (error.context.objectWriteTraceId ?? []).flatMap((trace) => byTrace.get(trace) ?? []);
    for (const record of named) outcomes[record.index] ??= failed(counterpart, record, error);
    if (named.length === 0) nameless = error;
  }
  return { left: part.filter(({ index }) => outcomes[index] === undefined), fault: nameless };
}

/**
 * Splits a refused batch into the parts that are sent next. Records that are certainly faulty get their results here, and are in none of
 * the parts.
 */
function cut(part: readonly Sent[], fault: HubspotError, counterpart: Counterpart, outcomes: Outcome[]): Sent[][] {
  const traces = new Set(fault.context.objectWriteTraceId);
  const keys = new Set(fault.context.ids);
  const missing = missingProperties(fault);
  const blamed = part.filter(
    (record) => traces.has(traceOf(record)) || keys.has(record.key) || missing.some((name) => Object.hasOwn(record.properties, name)),
  );
  const guilty = part.length === 1 ? part : blamed;
  for (const record of guilty) outcomes[record.index] = failed(counterpart, record, fault);
  const rest = part.filter((record) => !guilty.includes(record));
  if (guilty.length > 0) return rest.length > 0 ? [rest] : [];

  const suspects = part.filter(({ properties }) =>
    Object.values(properties).some((value) => value !== "" && fault.message.includes(value)),
  );
  if (suspects.length > 0 && suspects.length < part.length) return [suspects, part.filter((record) => !suspects.includes(record))];
  const middle = Math.ceil(part.length / 2);
  return [part.slice(0, middle), part.slice(middle)];
}

/**
 * Finds the names that HubSpot reports as unknown properties: `Property values were not valid:
 * [{"error":"PROPERTY_DOESNT_EXIST","name":"…"}]`.
 */
export function missingProperties({ message, context }: HubspotError): string[] {
  const listed = [...message.matchAll(/\{[^{}]*"error":"PROPERTY_DOESNT_EXIST"[^{}]*\}/g)].flatMap(
    ([entry]) => /"name":"([^"]+)"/.exec(entry)?.[1] ?? [],
  );
  return [...listed, ...(context.propertyName ?? [])];
}

export function traceOf({ index }: Sent): string {
  return String(index);
}

function failed(counterpart: Counterpart, { key }: Sent, fault: HubspotError): CrmOutcome {
  return { key, state: "failed", ...asRefusal(counterpart, fault) };
}

/** Creates the error of a record for which the CRM returned no result. */
export function noAnswer(reason: string): CrmRefusal {
  return { retry: true, category: "NO_ANSWER", message: `${reason} Sending it again is safe.`, correlationId: null };
}

function unknown(key: string, reason: string): CrmOutcome {
  return { key, state: "failed", ...noAnswer(reason) };
}
