import { errors } from "millrace";
import type { CrmRefusal, CrmRefusals } from "./crm.ts";
import { MAX_CALLS, noAnswer, SILENT } from "./hubspot-batch.ts";
import { asRefusal, batchFault } from "./hubspot-refusal.ts";
import type { HubspotError } from "./hubspot-wire.ts";
import type { Counterpart } from "./refusal.ts";

/** An item of a batch, with the CRM's id of its contact. */
interface OfContact {
  crmId: string;
}

/** The errors in HubSpot's response to a part of a batch, and the items that the response omits. */
interface Said<Item> {
  errors: readonly HubspotError[];
  silent: readonly Item[];
}

/**
 * Sends a repeatable batch and finds the refused contacts. A contact is refused if an error in the response names the contact, or if the
 * contact is refused alone. An error that names no contact, or the refusal of a whole batch, splits the batch in halves. An item that a
 * response omits gets a result that asks for a retry. Any other error of the first call is thrown. Any other error of a later call becomes
 * the result of the remaining items.
 */
export async function inHalves<Item extends OfContact>(
  counterpart: Counterpart,
  items: readonly Item[],
  send: (part: readonly Item[]) => Promise<Said<Item>>,
): Promise<CrmRefusals> {
  const refused = new Map<string, CrmRefusal>();
  const parts: (readonly Item[])[] = items.length > 0 ? [items] : [];
  let reason = SILENT;
  for (let calls = 0; parts.length > 0 && calls < MAX_CALLS; calls++) {
    const part = parts[0] ?? [];
    try {
      const { errors, silent } = await send(part);
      const { left, fault } = blame(counterpart, part, errors, refused);
      parts.splice(0, 1, ...(fault ? halves(counterpart, left, fault, refused) : []));
      if (!fault) for (const { crmId } of silent) if (!refused.has(crmId)) refused.set(crmId, noAnswer(SILENT));
    } catch (error) {
      const fault = batchFault(error);
      if (!fault && calls === 0) throw error;
      if (!fault) {
        reason = errors.messageOf(error);
        break;
      }
      parts.splice(0, 1, ...halves(counterpart, part, fault, refused));
    }
  }
  for (const { crmId } of parts.flat()) refused.set(crmId, noAnswer(reason));
  return refused;
}

/**
 * Stores the refusals of contacts that a response's errors name. If an error names no contact, the function returns that error and the
 * contacts that may have caused the error.
 */
function blame<Item extends OfContact>(
  counterpart: Counterpart,
  part: readonly Item[],
  faults: readonly HubspotError[],
  refused: Map<string, CrmRefusal>,
): { left: Item[]; fault: HubspotError | undefined } {
  let nameless: HubspotError | undefined;
  for (const fault of faults) {
    const ids = new Set([...(fault.context.ids ?? []), ...(fault.context.fromObjectId ?? [])]);
    const named = part.filter(({ crmId }) => ids.has(crmId));
    for (const { crmId } of named) refused.set(crmId, asRefusal(counterpart, fault));
    if (named.length === 0) nameless = fault;
  }
  return { left: part.filter(({ crmId }) => !refused.has(crmId)), fault: nameless };
}

function halves<Item extends OfContact>(
  counterpart: Counterpart,
  part: readonly Item[],
  fault: HubspotError,
  refused: Map<string, CrmRefusal>,
): Item[][] {
  const [only] = part;
  if (only && part.length === 1) {
    refused.set(only.crmId, asRefusal(counterpart, fault));
    return [];
  }
  const middle = Math.ceil(part.length / 2);
  return [part.slice(0, middle), part.slice(middle)].filter(({ length }) => length > 0);
}
