import type { TraceContext } from "millrace";
import { CRM_BATCH, type Crm, type CrmFound, type CrmReading, type CrmRefusal } from "../../providers/index.ts";
import { contactKey } from "./keys.ts";
import type { Candidate } from "./links.ts";
import { propertyNames } from "./properties.ts";

export type RecordThere =
  /** The contact has no CRM record, or the contact's record was not read. */
  | { state: "unread" }
  | { state: "gone" }
  | { state: "refused"; why: CrmRefusal }
  /** `isAnother`: the record is not the linked record, but has the contact's key. */
  | { state: "found"; found: CrmFound; isAnother?: true };

/** The CRM client that reads records, and the tenant of the contacts. */
interface RecordsCall {
  env: object;
  tenantId: string;
  key: string;
  trace: TraceContext;
}

/**
 * The error of a contact whose record may have been merged into another record. The contact is retried, because the CRM's notice will
 * identify the resulting record.
 */
export const MERGED_THERE: CrmRefusal = {
  retry: true,
  category: "MERGED_IN_CRM",
  message:
    "The contact's record is missing, and one record of its chunk was merged into another in the CRM. The CRM's notice of the merge will resolve it.",
  correlationId: null,
};

/**
 * Reads the records of contacts. A record belongs to a contact only if the record has our key for this contact. This is the linked record
 * or, after a merge in the CRM, another record. A linked record with another key is refused.
 */
export async function readRecords(
  { env, tenantId, key, trace }: RecordsCall,
  upstream: Crm,
  candidates: readonly Candidate[],
): Promise<(candidate: Candidate) => RecordThere> {
  const crmIds = [...new Set(candidates.flatMap(({ link }) => link?.crmId ?? []))];
  const { found, refused } = await inCalls(crmIds, (part) => upstream.read(part, { key, trace }, propertyNames(env)));
  const alive = found.filter(({ archived }) => !archived);
  const byId = new Map(alive.map((one) => [one.crmId, one]));
  const byName = new Map(alive.map((one) => [one.key, one]));
  const asked = new Set(crmIds);
  // The CRM returns a merged record under the id of the resulting record.
  const hasMerged = found.some(({ crmId }) => !asked.has(crmId));
  return ({ contact: { contact_id: id }, link }) => {
    const crmId = link?.crmId;
    if (!crmId || !asked.has(crmId)) return { state: "unread" };
    const why = refused.get(crmId);
    if (why) return { state: "refused", why };
    const name = contactKey(tenantId, id);
    const theirs = byId.get(crmId) ?? byName.get(name);
    if (theirs?.key === name) return { state: "found", found: theirs };
    if (theirs) return { state: "refused", why: foreign(crmId, name) };
    return hasMerged ? { state: "refused", why: MERGED_THERE } : { state: "gone" };
  };
}

/**
 * Reads records by our keys, for contacts that may have a record without a link. Returns the records by contact id, without an entry for a
 * contact that has no record.
 */
export async function readByName(
  { env, tenantId, key, trace }: RecordsCall,
  upstream: Crm,
  candidates: readonly Candidate[],
): Promise<Map<string, RecordThere>> {
  const names = new Map(candidates.map(({ contact: { contact_id: id } }) => [contactKey(tenantId, id), id]));
  const read = (part: readonly string[]) => upstream.read(part, { key, trace }, propertyNames(env), "name");
  const { found, refused } = await inCalls([...names.keys()], read);
  const byName = new Map(found.flatMap((one) => (one.archived ? [] : [[one.key, one]])));
  return new Map(
    [...names].flatMap(([name, id]): [string, RecordThere][] => {
      const [theirs, why] = [byName.get(name), refused.get(name)];
      if (why) return [[id, { state: "refused", why }]];
      return theirs ? [[id, { state: "found", found: theirs, isAnother: true }]] : [];
    }),
  );
}

const FOREIGN = "FOREIGN_RECORD";

export function isForeign({ category }: { category: string | null }): boolean {
  return category === FOREIGN;
}

/** The error of a contact whose linked record does not have the contact's key. */
export function foreign(crmId: string, name: string): CrmRefusal {
  return {
    retry: false,
    category: FOREIGN,
    message: `Its record ${crmId} does not have the key ${name}: nothing was copied from it or sent to it. If it is this contact's, set that key in the CRM; otherwise a contact.sync creates another record for the contact.`,
    correlationId: null,
  };
}

/** Reads records with as many calls as needed. The contacts of a chunk, together with the contacts of aliases, may exceed one call. */
async function inCalls(ids: readonly string[], read: (part: readonly string[]) => Promise<CrmReading>): Promise<CrmReading> {
  const parts = Array.from({ length: Math.ceil(ids.length / CRM_BATCH) }, (_, index) =>
    ids.slice(index * CRM_BATCH, (index + 1) * CRM_BATCH),
  );
  const readings = await Promise.all(parts.map(read));
  return { found: readings.flatMap(({ found }) => found), refused: new Map(readings.flatMap(({ refused }) => [...refused])) };
}
