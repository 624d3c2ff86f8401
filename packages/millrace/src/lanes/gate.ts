import type { Kept } from "./backlog.ts";

/** An additional condition for the time at which the lane's messages are handed out. */
export interface Gate {
  /** Does work that is due before messages are handed out; returns undefined if no work is due. */
  prepare(): Promise<void> | undefined;
  room(): number;
  /** The lane calls this method within the transaction that removes these messages. */
  done(messages: readonly Kept[]): void;
  /** The next time at which the gate has work, in milliseconds since 1970; undefined if no work is planned. */
  nextAt(): number | undefined;
}
