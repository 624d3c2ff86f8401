import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { seconds } from "../terminal.ts";

/** Looks until something is so. */
export type Until = (so: () => boolean | Promise<boolean>, what: string) => Promise<void>;

const WITHIN_MS = 40_000;
/** It looks often at first, and less the longer something takes. */
const LOOK_MS = { first: 20, last: 100, times: 1.3 };

/**
 * Looks until something is so, for as long as nobody stops it, at growing distances or every `lookMs`. Errors: a `Refusal` when it did not
 * come to that in 40 seconds.
 */
export function untilWith(stop: AbortSignal, lookMs?: number): Until {
  return async (so, what) => {
    let pauseMs = lookMs ?? LOOK_MS.first;
    for (const endsAt = Date.now() + WITHIN_MS; !(await so()); await sleep(pauseMs, undefined, { signal: stop })) {
      if (lookMs === undefined) pauseMs = Math.min(pauseMs * LOOK_MS.times, LOOK_MS.last);
      if (Date.now() > endsAt) throw new Refusal(`It did not happen within ${seconds(WITHIN_MS)} that ${what}.`);
    }
  };
}
