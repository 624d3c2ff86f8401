import { backoffMs } from "./duration.ts";
import { messageOf } from "./errors.ts";
import { beginning } from "./text.ts";
import { within } from "./within.ts";

/** The delays between attempts to hand a dead letter to the app's code. */
const BACKOFF = { initialMs: 1000, maxMs: 300_000 } as const;
/** Maximum characters of a stored error of the app's code. */
export const MAX_ERROR_CHARACTERS = 500;

/** Passes a dead letter to the app's code. Returns the error message if the app's code failed. */
export async function handedOver(give: () => unknown, limitMs: number): Promise<string | undefined> {
  try {
    await within((async () => give())(), limitMs);
  } catch (error) {
    return beginning(messageOf(error), MAX_ERROR_CHARACTERS);
  }
}

/** The time of the next hand-off of a dead letter after this many failed hand-offs, in milliseconds since 1970. */
export function nextHandOffAt(tries: number): number {
  return Date.now() + backoffMs(tries, BACKOFF.initialMs, BACKOFF.maxMs);
}
