import { crashPoint, isSimulatedDeath } from "../../contract/crash-points.ts";
import { codeOf, messageOf } from "../../contract/errors.ts";
import { type ActionResult, bulkActionId, isOnRecord, selectResults } from "../../store/actions.ts";
import type { BulkItem } from "../../store/bulk-items.ts";
import { query } from "../../store/d1/retry.ts";
import type { AnyBulkVerb } from "../../topology/catalog.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";

/**
 * Maximum number of concurrent calls of a bulk action. An invocation may have six open connections, so the limit allows two calls that
 * compute without a connection.
 */
const AT_ONCE = 8;
/** The time in milliseconds after which a chunk acts on no further item. The next chunk acts on the remaining items. */
const BEGIN_WITHIN_MS = 20_000;

export interface Chunk {
  readonly verb: AnyBulkVerb;
  readonly call: BulkCall & { readonly bulkId: string };
  readonly from: number;
  readonly targets: readonly string[];
  readonly ratePerSecond: number;
  /** True after an operator has halted the bulk action. Then the chunk acts on no further item. */
  readonly isHalted: () => boolean;
}

/**
 * Acts on a chunk's items in order, at the given rate. Returns one result for each item up to the last item that was acted on. Repeating a
 * chunk is safe, because the action on each item is recorded under an id that only this item has. Errors: `unavailable`, thrown after every
 * call has ended.
 */
export async function actOn(chunk: Chunk): Promise<BulkItem[]> {
  const { call, targets, from, ratePerSecond, isHalted } = chunk;
  const known = await recorded(call, targets);
  const startedAt = Date.now();
  const due = (place: number) => startedAt + (place * 1000) / ratePerSecond;
  const items: BulkItem[] = [];
  const failures: unknown[] = [];
  const underWay = new Set<Promise<void>>();
  const isOver = () => failures.length > 0 || isHalted() || Date.now() > startedAt + BEGIN_WITHIN_MS;
  for (const [place, target] of targets.entries()) {
    const before = known.get(bulkActionId(call.bulkId, target));
    if (before === undefined) {
      await isTime(due(place), isOver);
      while (underWay.size >= AT_ONCE) await Promise.race(underWay);
      if (isOver()) break;
    }
    const one = resultOf(chunk, target, before)
      .then((came) => {
        items.push({ n: from + place, target, ...came });
        return crashPoint("B01 one item changed, chunk not over", call.bulkId);
      })
      .catch((error: unknown) => void failures.push(error))
      .finally(() => underWay.delete(one));
    underWay.add(one);
  }
  await Promise.all(underWay);
  if (failures.length > 0) throw failures[0];
  if (items.length === targets.length) await isTime(due(items.length), isOver);
  return items.toSorted((a, b) => a.n - b.n);
}

async function isTime(at: number, isOver: () => boolean): Promise<void> {
  for (let left = at - Date.now(); left > 0 && !isOver(); left = at - Date.now()) await scheduler.wait(Math.min(left, 200));
}

type Came = Pick<BulkItem, "result" | "code" | "why">;

async function resultOf({ verb, call }: Chunk, target: string, known: ActionResult | undefined): Promise<Came> {
  const actionId = bulkActionId(call.bulkId, target);
  const own: BulkCall = { ...call, by: { ...call.by, bulk: { id: call.bulkId, actionId } } };
  if (known) return asRecorded(verb, own, target, known);
  try {
    const { changed, why = null } = await verb.act(own, target);
    return changed ? { result: "done", code: null, why: null } : { result: "skipped", code: null, why };
  } catch (error) {
    if (isSimulatedDeath(error) || codeOf(error) === "unavailable") throw error;
    if (isOnRecord(error)) {
      const found = (await recorded(call, [target])).get(actionId);
      if (found) return asRecorded(verb, own, target, found);
    }
    const why = messageOf(error);
    const code = codeOf(error) ?? "step_failed";
    if (code === "invalid_transition" && (await verb.isSpent?.(own, target))) return { result: "skipped", code: null, why };
    return { result: "failed", code, why };
  }
}

/** The result of an action that an earlier attempt at the chunk recorded before the attempt crashed. */
async function asRecorded(verb: AnyBulkVerb, call: BulkCall, target: string, known: ActionResult): Promise<Came> {
  if (known === "applied") return { result: "done", code: null, why: null };
  if (known === "failed") return { result: "failed", code: "unavailable", why: NOT_TOLD };
  if (await verb.isSpent?.(call, target)) return { result: "skipped", code: null, why: "No change was needed." };
  const now = await refusalNow(verb, call, target);
  const why = now === null ? `${REFUSED} The action would be accepted now: repeat it.` : `${REFUSED} ${now}`;
  return { result: "failed", code: "invalid_transition", why };
}

const NOT_TOLD = "The action was recorded, but the platform did not accept it for 24 hours, and it had no effect: repeat the action.";
const REFUSED = "The action was refused and changed nothing.";

/** The reason why the action on an item would be refused now. Null if the action would be accepted, or if the check failed. */
async function refusalNow(verb: AnyBulkVerb, call: BulkCall, target: string): Promise<string | null> {
  try {
    return (await verb.refusal?.(call, target)) ?? null;
  } catch (error) {
    if (isSimulatedDeath(error) || codeOf(error) === "unavailable") throw error;
    return messageOf(error);
  }
}

async function recorded({ env, by, bulkId }: Chunk["call"], targets: readonly string[]): Promise<ReadonlyMap<string, ActionResult>> {
  const ids = targets.map((target) => bulkActionId(bulkId, target));
  const rows = await query<{ id: string; result: ActionResult }>(env.DB, selectResults(by.tenantId, ids));
  return new Map(rows.map(({ id, result }) => [id, result]));
}
