import type { Kept } from "./backlog.ts";

/** Limits when the lane's messages are handed out, in addition to the lane itself. */
export interface Gate {
  /** Does work that is due before messages are handed out; undefined if there is none. */
  prepare(): Promise<void> | undefined;
  room(): number;
  /** Called within the transaction that removes these messages. */
  done(messages: readonly Kept[]): void;
  /** The next time at which the gate has work, in milliseconds since 1970; undefined for none. */
  nextAt(): number | undefined;
}
