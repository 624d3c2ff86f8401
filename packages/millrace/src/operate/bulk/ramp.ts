import type { BulkAsked } from "../../store/bulk-actions.ts";

/** The sizes of the first stages where nobody says others; the rest is the last one. */
export const DEFAULT_RAMP: readonly number[] = [1, 10, 100, 1000, 10_000];
/** How many are acted upon in a second, where nobody says otherwise. */
export const DEFAULT_RATE = 10;
/** The platform creates and restarts 100 instances of one workflow in a second. */
export const MAX_RATE = 100;
/** The share of a stage that may fail, where nobody says otherwise. */
export const DEFAULT_ERROR_RATE = 0.1;
/** How long a thing has to come to its end before the next stage begins without it, where nobody says otherwise. */
export const DEFAULT_SETTLE_SECONDS = 60;
export const MAX_SETTLE_SECONDS = 600;

/** Things of one chunk: each is a few round trips, and what a chunk did is recorded once. */
const CHUNK = 50;
/** A chunk lasts no longer than this by its rate, so that its record is never far behind. */
const CHUNK_SECONDS = 2;

/** A stage, as places in the list: from the first of them up to, and without, the last. */
export interface Stage {
  readonly from: number;
  readonly to: number;
}

/** The stage that a place belongs to; at the end of the list an empty one. */
export function stageOf({ ramp }: Pick<BulkAsked, "ramp">, matched: number, place: number): Stage {
  let from = 0;
  for (const size of ramp) {
    const to = Math.min(from + size, matched);
    if (place < to) return { from, to };
    from = to;
  }
  return { from: place < matched ? from : matched, to: matched };
}

/** How many are acted upon next: never more than are left of the stage. */
export function chunkSize({ ratePerSecond }: Pick<BulkAsked, "ratePerSecond">, left: number): number {
  return Math.min(CHUNK, left, Math.max(1, Math.floor(ratePerSecond * CHUNK_SECONDS)));
}

/** Whether too much of what was begun has failed. What was skipped says nothing of the cause. */
export function isTooMuch(asked: Pick<BulkAsked, "stopAtErrorRate">, begun: number, failed: number): boolean {
  return begun > 0 && failed / begun > asked.stopAtErrorRate;
}

/** Why a bulk action that stops itself does, and what to do. */
export function tooMuch(
  asked: Pick<BulkAsked, "stopAtErrorRate">,
  { begun, failed, left, doubted }: { begun: number; failed: number; left: number; doubted: number },
): string {
  const bound = asked.stopAtErrorRate === 0 ? "0 %" : `${Math.round(asked.stopAtErrorRate * 1000) / 10} %`;
  const next =
    left === 0
      ? `No items remain. ${READ}, fix the cause, and start another bulk action over the same items.`
      : `${READ}, fix the cause, and resume it: it continues with the ${left} that ${left === 1 ? "remains" : "remain"}. It does not repeat failed items: start another bulk action over them.`;
  return [
    `The bulk action stopped itself: ${failed} of ${begun} items of this stage failed, and the limit is ${bound}.`,
    ...inDoubt(doubted),
    next,
  ].join(" ");
}

/** Said where all of it has ended, and nothing of it well, or some of it in doubt; null otherwise. */
export function endedBadly({ begun, failed, doubted }: { begun: number; failed: number; doubted: number }): string | null {
  if (failed === 0 || (failed < begun && doubted === 0)) return null;
  const all = failed === begun ? [`${failed === 1 ? "The only one" : `All ${failed}`} failed.`] : [];
  const rest = doubted < failed ? [`${READ}, fix the cause, and start another bulk action over the same items.`] : [];
  return [...all, ...inDoubt(doubted), ...rest].join(" ");
}

const READ = "Read the reason of each failure (items with the result failed)";

function inDoubt(doubted: number): string[] {
  if (doubted === 0) return [];
  return [
    `${doubted} of the failed items ${doubted === 1 ? "is" : "are"} in doubt: an operator must resolve each unknown outcome that is still open (GET /v1/effects?state=in_doubt lists them).`,
  ];
}
