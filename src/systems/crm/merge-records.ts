import type { TraceContext } from "millrace";
import type { Crm, CrmRefusal } from "../../providers/index.ts";
import type { Away } from "./prepared.ts";
import type { Pushed } from "./pushed.ts";
import { isForeign } from "./records.ts";

interface MergeCall {
  upstream: Crm;
  options: { key: string; trace: TraceContext };
  /** True if a linked record that does not have the contact's key is ignored. */
  revive: boolean;
}

/**
 * Merges the records of aliases into their contacts' records, and records all aliases. `records` maps contacts to their current records,
 * and is updated because a merged record may have a new id.
 */
export async function mergeRecords(call: MergeCall, away: readonly Away[], records: Map<string, string>, pushed: Pushed): Promise<void> {
  for (const one of away) {
    const why = await mergeOne(call, one, records, pushed);
    if (why) pushed.refused.push({ contactId: one.id, ...why });
    else pushed.merged.push({ contactId: one.id, revision: one.revision });
  }
  for (const link of pushed.links) link.crmId = records.get(link.contactId) ?? link.crmId;
  for (const synced of pushed.synced) synced.crm_id = records.get(synced.contact_id) ?? synced.crm_id;
}

/** Merges the record of an alias into the record of the alias's contact. Returns the reason if the merge is not possible. */
async function mergeOne(
  { upstream, options, revive }: MergeCall,
  { into, crmId, record }: Away,
  records: Map<string, string>,
  pushed: Pushed,
): Promise<CrmRefusal | undefined> {
  if (record.state === "unread") return undefined;
  const kept = records.get(into);
  if (kept === undefined) {
    const why = pushed.refused.find(({ contactId }) => contactId === into);
    return why ?? nowhere(into);
  }
  if (record.state === "gone" || crmId === kept) return undefined;
  if (record.state === "refused") {
    if (isForeign(record.why)) return revive ? undefined : record.why;
    // An earlier attempt, or a person in the CRM, may have merged the record already. In this case the CRM returns the record under the id
    // of the resulting record.
    const [now] = crmId === null ? [] : (await upstream.read([crmId], options)).found;
    return now?.crmId === kept ? undefined : record.why;
  }
  const merged = await upstream.merge(kept, record.found.crmId, options);
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
