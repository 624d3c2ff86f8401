import type { TraceContext } from "millrace";
import { CRM_BATCH, type Crm, type CrmFound, type CrmReading, type CrmRefusal } from "../../providers/index.ts";
import { contactKey } from "./keys.ts";
import type { Candidate } from "./links.ts";
import { propertyNames } from "./properties.ts";

/** How a contact's record was found in the CRM. */
export type RecordThere =
  /** Nobody looked, or it has none. */
  | { state: "unread" }
  | { state: "gone" }
  | { state: "refused"; why: CrmRefusal }
  /** `isAnother`: it is not the one that the link names, and bears the contact's name. */
  | { state: "found"; found: CrmFound; isAnother?: true };

/** Whose records are read, and by what. */
interface RecordsCall {
  env: object;
  tenantId: string;
  key: string;
  trace: TraceContext;
}

/** What is said of a contact whose record may have become another's: the CRM's notice says whose. */
export const MERGED_THERE: CrmRefusal = {
  retry: true,
  category: "MERGED_IN_CRM",
  message: "Its record is gone, and one of its chunk was merged into another in the CRM. The CRM's notice of that settles it.",
  correlationId: null,
};

/**
 * Reads the records of contacts. A record is a contact's only if it bears our name for it: the one of the link, or where that was merged in
 * the CRM, the one that bears the name now. Another's is refused: nothing of it is believed.
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
  // A record that was merged there answers under another's id.
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
 * Reads by our names for them the records of contacts of which something may be there that their links do not name. Answers by contact;
 * nothing for one without any.
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

/** What is said of a contact whose link names a record that does not bear its name. */
export function foreign(crmId: string, name: string): CrmRefusal {
  return {
    retry: false,
    category: FOREIGN,
    message: `Its record ${crmId} does not bear the name ${name}: nothing was taken from it or sent to it. If it is this contact's, give it that name in the CRM; a contact.sync leaves it alone and brings the contact to a record of its own.`,
    correlationId: null,
  };
}

/** A chunk's contacts with those they are known as may be more than one call takes. */
async function inCalls(ids: readonly string[], read: (part: readonly string[]) => Promise<CrmReading>): Promise<CrmReading> {
  const parts = Array.from({ length: Math.ceil(ids.length / CRM_BATCH) }, (_, index) =>
    ids.slice(index * CRM_BATCH, (index + 1) * CRM_BATCH),
  );
  const readings = await Promise.all(parts.map(read));
  return { found: readings.flatMap(({ found }) => found), refused: new Map(readings.flatMap(({ refused }) => [...refused])) };
}
