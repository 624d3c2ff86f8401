import type { TraceContext } from "../engine/index.ts";
import type { Crm, CrmRefusal } from "../providers/index.ts";
import type { Candidate } from "./links.ts";
import type { Pushed } from "./pushed.ts";
import { isForeign, type RecordThere } from "./records.ts";

interface MergeCall {
  upstream: Crm;
  options: { key: string; trace: TraceContext };
  knownOf: (id: string) => string;
  recordOf: (candidate: Candidate) => RecordThere;
  /** Leaves a record that is not the contact's own, and goes on without it. */
  revive: boolean;
}

/**
 * Merges the records of contacts that became others into theirs, and notes all of those that are others now. `records` are those that
 * contacts have by now: a merge may give its result an id of its own.
 */
export async function mergeRecords(
  call: MergeCall,
  away: readonly Candidate[],
  records: Map<string, string>,
  pushed: Pushed,
): Promise<void> {
  for (const candidate of away) {
    const { contact_id: contactId, revision } = candidate.contact;
    const why = candidate.link?.crmId ? await mergeOne(call, candidate, candidate.link.crmId, records, pushed) : undefined;
    if (why) pushed.refused.push({ contactId, ...why });
    else pushed.merged.push({ contactId, revision });
  }
  for (const link of pushed.links) link.crmId = records.get(link.contactId) ?? link.crmId;
  for (const synced of pushed.synced) synced.crm_id = records.get(synced.contact_id) ?? synced.crm_id;
}

/** Merges one record into that of the contact it is known as. Answers why not. */
async function mergeOne(
  { upstream, options, knownOf, recordOf, revive }: MergeCall,
  candidate: Candidate,
  crmId: string,
  records: Map<string, string>,
  pushed: Pushed,
): Promise<CrmRefusal | undefined> {
  const into = knownOf(candidate.contact.contact_id);
  const kept = records.get(into);
  if (kept === undefined) {
    const why = pushed.refused.find(({ contactId }) => contactId === into);
    return why ?? nowhere(into);
  }
  const record = recordOf(candidate);
  if (record.state === "gone" || crmId === kept) return undefined;
  if (record.state === "refused") {
    if (isForeign(record.why)) return revive ? undefined : record.why;
    // Merged with another in the CRM, or by an attempt of this step whose write was lost: alone it says with which.
    const [now] = (await upstream.read([crmId], options)).found;
    return now?.crmId === kept ? undefined : record.why;
  }
  const merged = await upstream.merge(kept, record.state === "found" ? record.found.crmId : crmId, options);
  if (merged.state === "failed") return merged;
  records.set(into, merged.crmId);
  return undefined;
}

function nowhere(into: string): CrmRefusal {
  return {
    retry: false,
    category: "CANONICAL_MISSING",
    message: `It is known as ${into}, which has no record in the CRM to merge its own into. A contact.sync of ${into} makes one.`,
    correlationId: null,
  };
}
