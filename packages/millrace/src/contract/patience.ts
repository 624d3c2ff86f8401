/** Time without a change after which the keeper checks a row. */
export const KEEPER_PATIENCE_MS = 10_000;

/** Time for a committed message's confirmation, after which the keeper sends it again. */
export const CONFIRM_WITHIN_MS = 10_000;

/** Maximum difference between the clocks of the platform's machines. */
export const CLOCKS_APART_MS = 1000;

/** The result of one part of a repair. Repairs run in small parts, so that more urgent duties are not delayed. */
export interface Portion {
  readonly did: number;
  /** True when further parts of the repair are due. */
  readonly more: boolean;
}
