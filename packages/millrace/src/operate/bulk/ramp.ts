import type { BulkAction } from "../../inspect/bulk-actions.ts";

/** Default number of items in each of the first stages of a bulk action. One more stage contains the remaining items. */
export const DEFAULT_RAMP: readonly number[] = [1, 10, 100, 1000, 10_000];
/** Default rate of a bulk action, in items per second. */
export const DEFAULT_RATE = 10;
/** Maximum rate of a bulk action, in items per second. The platform creates and restarts at most 100 instances of a workflow per second. */
export const MAX_RATE = 100;
/** Default for the maximum share of a stage's items that may fail. */
export const DEFAULT_ERROR_RATE = 0.1;
/** Default time in seconds for which a stage waits for its items to end, before the next stage begins. */
export const DEFAULT_SETTLE_SECONDS = 60;
export const MAX_SETTLE_SECONDS = 600;

/** Maximum number of items in a chunk. The results of a chunk are recorded together, after a few round trips per item. */
const CHUNK = 50;
/** Maximum duration of a chunk at the bulk action's rate, so that results are recorded soon. */
const CHUNK_SECONDS = 2;

export interface Stage {
  readonly from: number;
  readonly to: number;
}

/** The stage that contains the given position of the item list. At the end of the list, the result is an empty stage. */
export function stageOf({ ramp }: { readonly ramp: readonly number[] }, matched: number, place: number): Stage {
  let from = 0;
  for (const size of ramp) {
    const to = Math.min(from + size, matched);
    if (place < to) return { from, to };
    from = to;
  }
  return { from: place < matched ? from : matched, to: matched };
}

export function chunkSize({ rate_per_second }: Pick<BulkAction, "rate_per_second">, left: number): number {
  return Math.min(CHUNK, left, Math.max(1, Math.floor(rate_per_second * CHUNK_SECONDS)));
}

/** True if too many items of a stage have failed. Skipped items do not count. */
export function isTooMuch(bulk: Pick<BulkAction, "stop_at_error_rate">, begun: number, failed: number): boolean {
  return begun > 0 && failed / begun > bulk.stop_at_error_rate;
}

/** The reason why a bulk action stopped itself, with the next step for the operator. */
export function tooMuch(
  bulk: Pick<BulkAction, "stop_at_error_rate">,
  { begun, failed, left, doubted }: { begun: number; failed: number; left: number; doubted: number },
): string {
  const bound = bulk.stop_at_error_rate === 0 ? "0 %" : `${Math.round(bulk.stop_at_error_rate * 1000) / 10} %`;
  const next =
    left === 0
      ? `No items remain. ${READ}, fix the cause, and start another bulk action over the failed items.`
      : `${READ}, fix the cause, and resume it: it continues with the ${left} that ${left === 1 ? "remains" : "remain"}. It does not repeat failed items: start another bulk action over them.`;
  return [
    `The bulk action stopped itself: ${failed} of ${begun} items of this stage failed, and the limit is ${bound}.`,
    ...inDoubt(doubted),
    next,
  ].join(" ");
}

/** A sentence for the operator if every item of a bulk action failed, or if some outcomes are unknown; null otherwise. */
export function endedBadly({ begun, failed, doubted }: { begun: number; failed: number; doubted: number }): string | null {
  if (failed === 0 || (failed < begun && doubted === 0)) return null;
  const all = failed === begun ? [`${failed === 1 ? "The only one" : `All ${failed}`} failed.`] : [];
  const rest = doubted < failed ? [`${READ}, fix the cause, and start another bulk action over the failed items.`] : [];
  return [...all, ...inDoubt(doubted), ...rest].join(" ");
}

const READ = "Read the reason of each failure (items with the result failed)";

function inDoubt(doubted: number): string[] {
  if (doubted === 0) return [];
  return [
    `${doubted} of the failed items ${doubted === 1 ? "is" : "are"} in doubt: an operator must resolve each unknown outcome that is still open (GET /v1/effects?state=in_doubt lists them).`,
  ];
}
