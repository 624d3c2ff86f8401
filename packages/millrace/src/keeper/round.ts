import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Portion } from "../contract/patience.ts";
import { within } from "../contract/within.ts";

/** One thing the keeper looks after. */
export interface Duty {
  readonly name: string;
  /** Milliseconds of a round after which it begins no further portion. */
  readonly budgetMs: number;
  /** Does a bounded part of what is due. Safe to repeat, from any point. */
  readonly portion: () => Promise<Portion>;
}

/** What one round did, by duty. */
export interface Round {
  readonly did: Readonly<Record<string, number>>;
  /** True when time was up before the work was done: the next round follows at once. */
  readonly more: boolean;
}

/** A portion that is not over by then is left to itself: what hangs must not hold up the other duties. */
const PORTION_TIMEOUT_MS = 30_000;

/**
 * One round: each duty in the order of its urgency, portion by portion, while there is work and time. A duty that fails, or hangs, is
 * logged and leaves the others their turn.
 */
export async function runRound(duties: readonly Duty[]): Promise<Round> {
  const did: Record<string, number> = {};
  let more = false;
  for (const duty of duties) {
    const part = await runDuty(duty);
    did[duty.name] = part.did;
    more ||= part.more;
  }
  return { did, more };
}

async function runDuty({ name, budgetMs, portion }: Duty): Promise<Portion> {
  const until = Date.now() + budgetMs;
  let did = 0;
  try {
    for (;;) {
      const part = await within(portion(), PORTION_TIMEOUT_MS);
      did += part.did;
      if (!part.more || Date.now() >= until) return { did, more: part.more };
    }
  } catch (error) {
    logLine("error", { log: "keeper", part: name, error: messageOf(error) });
    return { did, more: false };
  }
}
