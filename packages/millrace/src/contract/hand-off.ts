import { backoffMs } from "./duration.ts";
import { messageOf } from "./errors.ts";
import { beginning } from "./text.ts";
import { within } from "./within.ts";

/** The waits between the hand-offs of one letter. */
const BACKOFF = { initialMs: 1000, maxMs: 300_000 } as const;
/** What is kept of an error's text. */
export const MAX_ERROR_CHARACTERS = 500;

/** Gives a dead letter to an author's code. Answers why it was not taken, in words, or nothing. */
export async function handedOver(give: () => unknown, limitMs: number): Promise<string | undefined> {
  try {
    await within((async () => give())(), limitMs);
  } catch (error) {
    return beginning(messageOf(error), MAX_ERROR_CHARACTERS);
  }
}

/** When a letter is due again that was not taken so many times, in milliseconds since 1970. */
export function nextHandOffAt(tries: number): number {
  return Date.now() + backoffMs(tries, BACKOFF.initialMs, BACKOFF.maxMs);
}
