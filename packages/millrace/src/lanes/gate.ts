import type { Kept } from "./backlog.ts";

/** What decides beside the lane itself when its messages may be handed out. */
export interface Gate {
  /** Does what is due before messages are handed out; undefined when nothing is. */
  prepare(): Promise<void> | undefined;
  /** Most messages that may be handed out now. */
  room(): number;
  /** Heard in the very write that removes messages which are done. */
  done(messages: readonly Kept[]): void;
  /** When it has something to do next, in milliseconds since 1970; undefined for never. */
  nextAt(): number | undefined;
}
