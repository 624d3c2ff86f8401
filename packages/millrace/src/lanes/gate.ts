import type { Kept } from "./backlog.ts";

/** An additional condition for handing out the lane's messages. */
export interface Gate {
  /** Does work that is due before messages are handed out; returns undefined if no work is due. */
  prepare(): Promise<void> | undefined;
  room(): number;
  /** The lane calls this method within the transaction that removes the given messages. */
  done(messages: readonly Kept[]): void;
  /** The next time at which the gate has work, in milliseconds since 1970; undefined if no work is planned. */
  nextAt(): number | undefined;
}
