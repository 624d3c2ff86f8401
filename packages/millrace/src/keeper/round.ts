import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Portion } from "../contract/patience.ts";
import { within } from "../contract/within.ts";

export interface Duty {
  readonly name: string;
  /** The time in a round after which no portion of this duty starts, in milliseconds. */
  readonly budgetMs: number;
  /** Does a bounded part of the duty's due work. The call is safe to repeat after a crash at any point. */
  readonly portion: () => Promise<Portion>;
}

/** The count of each duty in one round. */
export interface Round {
  readonly did: Readonly<Record<string, number>>;
  /** True when the round's time ended before all due work was done. Then the next round follows at once. */
  readonly more: boolean;
}

/** Maximum time that a round waits for one portion, in milliseconds, so that a hanging portion does not delay the other duties. */
const PORTION_TIMEOUT_MS = 30_000;

/**
 * Runs the duties of one round in order. Each duty runs portion by portion, while the duty has due work and time remains. If a duty fails
 * or hangs, this is logged, and the next duty runs.
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
