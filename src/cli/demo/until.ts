import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { seconds } from "../terminal.ts";

/** Looks until something is so. */
export type Until = (so: () => boolean | Promise<boolean>, what: string) => Promise<void>;

const WITHIN_MS = 40_000;
const LOOK_MS = 20;

/** Looks until something is so, for as long as nobody stops it. Errors: a `Refusal` when it did not come to that in 40 seconds. */
export function untilWith(stop: AbortSignal, lookMs = LOOK_MS): Until {
  return async (so, what) => {
    for (const endsAt = Date.now() + WITHIN_MS; !(await so()); await sleep(lookMs, undefined, { signal: stop })) {
      if (Date.now() > endsAt) throw new Refusal(`It did not happen within ${seconds(WITHIN_MS)} that ${what}.`);
    }
  };
}
