import type { CrmRefusal } from "../../providers/index.ts";
import { newlyKnown } from "./links.ts";
import type { Prepared } from "./prepared.ts";
import type { Pushed } from "./pushed.ts";
import type { Sending } from "./send.ts";

/** The error of a contact whose deleted record was created again with only the changed values. */
const DELETED_MEANWHILE: CrmRefusal = {
  retry: true,
  category: "DELETED_MEANWHILE",
  message: "The contact's record was deleted in the CRM during the push. A new record was created, and the next try completes it.",
  correlationId: null,
};

/**
 * Returns the database writes for contacts after a push, except the writes for merges. `records` maps each contact to its current record.
 */
export function outcomeOf(
  { work, cut, refused, asked }: Prepared,
  sendings: ReadonlyMap<string, Sending>,
): { pushed: Pushed; records: Map<string, string> } {
  const there = new Set(asked);
  const skipped = cut.filter(({ contactId }) => there.has(contactId)).length;
  const pushed: Pushed = { links: [], takes: [], merged: [], cut, anew: [], refused: [...refused], synced: [], skipped };
  const records = new Map<string, string>();
  for (const { id, revision, crmId, isAnother, readAt, settled, patch, takes, maybe } of work) {
    const sending = sendings.get(id);
    if (sending?.state === "failed") {
      pushed.refused.push({ contactId: id, ...sending.why });
      continue;
    }
    const record = sending?.crmId ?? crmId;
    if (record === null) continue;
    records.set(id, record);
    // A contact is not finished if its record is not connected with its company, or has only some of the values. The known values are
    // stored, and a retry sends the missing values.
    const unfinished = sending?.unconnected ?? (sending?.isAnew ? DELETED_MEANWHILE : undefined);
    const known = sending?.isAnew ? settled.send : { ...settled.seen, ...settled.send };
    const { company: _, ...unemployed } = known;
    if (sending?.isAnew || isAnother) pushed.anew.push({ contactId: id, revision: 0 });
    pushed.links.push({
      contactId: id,
      crmId: record,
      revision: unfinished ? 0 : revision,
      takes: unfinished ? 0 : takes,
      ...newlyKnown(unfinished ? unemployed : known, settled.take, patch),
      readAt,
    });
    // A call whose response was lost was successful if the CRM has the call's values.
    const hasArrived = maybe.length > 0 && Object.keys(settled.seen).some((property) => !(property in settled.take));
    if (patch && readAt !== null) pushed.takes.push({ contactId: id, readAt, ...patch });
    if (unfinished) pushed.refused.push({ contactId: id, ...unfinished });
    else if (sending || hasArrived) pushed.synced.push({ contact_id: id, crm_id: record, revision });
    else if (there.has(id)) pushed.skipped++;
  }
  return { pushed, records };
}
