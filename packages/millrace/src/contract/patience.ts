/** The keeper checks a row that has not changed for this time. */
export const KEEPER_PATIENCE_MS = 10_000;

/** Time limit for the confirmation of a committed message. After this time the keeper sends the message again. */
export const CONFIRM_WITHIN_MS = 10_000;

/** Maximum difference between the clocks of the platform's machines. */
export const CLOCKS_APART_MS = 1000;

/** The result of one part of a repair. A repair runs in small parts, so that more urgent duties of the keeper are not delayed. */
export interface Portion {
  readonly did: number;
  /** True when the repair has further parts to run. */
  readonly more: boolean;
}
