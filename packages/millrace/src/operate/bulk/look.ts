import type { BulkItem } from "../../store/bulk-items.ts";
import { selectDone } from "../../store/bulk-items.ts";
import { query } from "../../store/d1/retry.ts";
import type { ActedOn } from "../../topology/bulk-verb.ts";
import type { AnyBulkVerb } from "../../topology/catalog.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";

const TOGETHER = 200;

type Turned = Pick<BulkItem, "n" | "target" | "code" | "why">;

export interface Looked {
  /** The position in the item list before which each item has ended or has exceeded its time limit. */
  readonly looked: number;
  readonly turned: readonly Turned[];
}

interface Look {
  readonly verb: AnyBulkVerb;
  readonly call: BulkCall & { readonly bulkId: string };
  readonly from: number;
  readonly to: number;
  readonly fresh?: readonly BulkItem[];
  readonly settleMs: number;
}

interface Seen extends ActedOn {
  readonly n: number;
  readonly ageMs: number;
}

/**
 * Reads the outcomes of the next items, in the order in which the items were acted on. An item that exceeds its time limit (`settleMs`)
 * counts as done and delays no later item.
 */
export async function look({ verb, call, from, to, fresh = [], settleMs }: Look): Promise<Looked> {
  if (verb.outcomes === undefined) return { looked: to, turned: [] };
  const turned: Turned[] = [];
  for (let at = from; ; ) {
    const stored = await query<Omit<Seen, "id"> & { target: string }>(
      call.env.DB,
      selectDone({ tenantId: call.by.tenantId, id: call.bulkId }, at, TOGETHER),
    );
    const some = [...stored.map(({ target, ...one }): Seen => ({ ...one, id: target })), ...freshly(fresh, at)].slice(0, TOGETHER);
    if (some.length === 0) return { looked: to, turned };
    const outcomes = await verb.outcomes(call, some);
    let isOpen = false;
    for (const { n, id, ageMs } of some) {
      const outcome = outcomes.get(id);
      if (outcome === "open") isOpen ||= ageMs < settleMs;
      else if (outcome !== undefined) turned.push({ n, target: id, ...outcome });
      if (!isOpen) at = n + 1;
    }
    if (isOpen) return { looked: at, turned };
    if (some.length < TOGETHER) return { looked: to, turned };
  }
}

function freshly(fresh: readonly BulkItem[], from: number): Seen[] {
  return fresh.flatMap(({ n, target, result }) => (result === "done" && n >= from ? [{ n, id: target, at: Date.now(), ageMs: 0 }] : []));
}
