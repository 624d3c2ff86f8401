import { crm } from "../../providers/index.ts";
import type { Candidate } from "./links.ts";
import { mergeRecords } from "./merge-records.ts";
import { outcomeOf } from "./outcome.ts";
import { type PushCall, prepare, type Thoroughness } from "./prepare.ts";
import type { Pushed } from "./pushed.ts";
import { send } from "./send.ts";
import type { Busy } from "./sends.ts";

/**
 * Pushes at most as many contacts to the CRM as one call accepts. For an alias, the contact of the alias is pushed too. Every call to the
 * CRM is repeatable, and the caller writes the results into the database. Returns `Busy` if another push has reserved one of the contacts.
 * Throws the errors of `prepare`.
 */
export async function push(
  call: PushCall,
  asked: readonly Candidate[],
  canonical: ReadonlyMap<string, string>,
  how: Thoroughness = {},
): Promise<Pushed | Busy> {
  const upstream = crm(call.env, call.tenantId);
  const prepared = await prepare(call, upstream, asked, canonical, how);
  if ("busyUntil" in prepared) return prepared;
  if ("lost" in prepared)
    return { links: [], takes: [], merged: [], cut: [], anew: [], refused: [], synced: [], skipped: 0, lost: prepared.lost };
  const options = { key: call.key, trace: call.trace };
  const { pushed, records } = outcomeOf(prepared, await send({ upstream, tenantId: call.tenantId, options }, prepared.work));
  await mergeRecords({ upstream, options, revive: how.revive ?? false }, prepared.away, records, pushed);
  return pushed;
}
