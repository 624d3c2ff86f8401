/** How long a row may stay untouched before the keeper looks why. */
export const KEEPER_PATIENCE_MS = 10_000;

/** How long a committed message may take to be confirmed by its consumer before the keeper sends it again. */
export const CONFIRM_WITHIN_MS = 10_000;

/** By how much the clocks of the platform's machines may differ. */
export const CLOCKS_APART_MS = 1000;

/** What a part of a repair did: a bounded number of rows, so that what is more urgent has its turn again soon. */
export interface Portion {
  readonly did: number;
  /** True when more is due than it took. */
  readonly more: boolean;
}
