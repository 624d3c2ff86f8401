import type { Prepared } from "./prepared.ts";
import type { Pushed } from "./pushed.ts";
import type { Sending } from "./send.ts";

/** What is to be written of contacts after they were sent; merges are not in it yet. `records`: the record of each that has one now. */
export function outcomeOf(
  { work, cut, refused, asked }: Prepared,
  sendings: ReadonlyMap<string, Sending>,
): { pushed: Pushed; records: Map<string, string> } {
  const there = new Set(asked);
  const skipped = cut.filter(({ contactId }) => there.has(contactId)).length;
  const pushed: Pushed = { links: [], takes: [], merged: [], cut, refused: [...refused], synced: [], skipped };
  const records = new Map<string, string>();
  for (const { id, revision, crmId, readAt, settled, patch, takes } of work) {
    const sending = sendings.get(id);
    if (sending?.state === "failed") {
      pushed.refused.push({ contactId: id, ...sending.why });
      continue;
    }
    const record = sending?.crmId ?? crmId;
    if (record === null) continue;
    records.set(id, record);
    const unconnected = sending?.unconnected;
    const { company: _, ...known } = { ...settled.seen, ...settled.send };
    pushed.links.push({
      contactId: id,
      crmId: record,
      // A contact without its company is not done: its record is known, and both are tried again.
      revision: unconnected ? 0 : revision,
      takes: unconnected ? 0 : takes,
      known: unconnected ? known : { ...settled.seen, ...settled.send },
      readAt,
    });
    if (patch && readAt !== null) pushed.takes.push({ contactId: id, readAt, ...patch });
    if (unconnected) pushed.refused.push({ contactId: id, ...unconnected });
    else if (sending) pushed.synced.push({ contact_id: id, crm_id: record, revision });
    else if (there.has(id)) pushed.skipped++;
  }
  return { pushed, records };
}
