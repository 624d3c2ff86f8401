import { DurableObject } from "cloudflare:workers";
import { type Counts, counted, earliest, fits, type Granted, type Window } from "./windows.ts";

export interface Ask {
  windows: readonly Window[];
  /** How many of what is limited. */
  cost: number;
  /** The longest wait, in milliseconds, that is worth a reservation. */
  patienceMs: number;
  /** By how much a period is lengthened, in milliseconds. */
  marginMs: number;
  /** A moment given to this asker before that it could not use: it goes back, and a place for it is looked for from now on. */
  unused?: number;
}

/** `go` is a reservation for the moment `at`, in `waitMs`. Without it nothing was reserved, and before then nothing will be free. */
export interface Answer {
  go: boolean;
  /** Milliseconds since 1970, by the limiter's clock. */
  at: number;
  waitMs: number;
}

/** What a limiter remembers. One value: a take is one written row, however many windows there are. */
interface State {
  /** The last moment that was given away. Later askers come after it, so that they go in the order in which they asked. */
  lastAt: number;
  pausedUntil: number;
  /** By the window's period: a limit that is raised or lowered keeps what was counted. */
  counts: Record<string, Counts>;
}

const NOTHING: State = { lastAt: 0, pausedUntil: 0, counts: {} };

/**
 * A limit that many callers share: exact sliding windows, several at once. It gives away moments, and a moment is on disk before its
 * owner hears of it, so neither an eviction nor a crash lets anything go twice. A caller that dies with its moment wastes it; one that
 * comes too late for it gives it back. What it keeps is bounded by the windows and the patience, not by the traffic.
 */
export class RateLimit extends DurableObject {
  take({ windows, cost, patienceMs, marginMs, unused }: Ask): Answer {
    const now = Date.now();
    const state = this.#state();
    const counts = { ...state.counts };
    const granted = (): Granted[] => windows.map((window) => ({ window, counts: counts[window.periodMs] ?? [], marginMs }));
    const count = (at: number, more: number): void => {
      for (const one of granted()) counts[one.window.periodMs] = counted(one, { cost: more, at }, now);
    };
    if (unused !== undefined) count(unused, -cost);

    const soonest = Math.max(now, state.pausedUntil);
    const returns = unused !== undefined && granted().every((one) => fits(one, { cost, at: soonest }));
    const at = returns ? soonest : firstAfter(granted(), cost, Math.max(soonest, state.lastAt));
    const waitMs = at - now;
    const go = waitMs <= patienceMs;
    if (go) count(at, cost);
    if (go || unused !== undefined) this.#keep({ ...state, lastAt: go ? Math.max(at, state.lastAt) : state.lastAt, counts });
    return { go, at, waitMs };
  }

  /** Gives nothing away for so long. What was given away before stays given. A shorter pause does not end a longer one. */
  pause(ms: number): void {
    const state = this.#state();
    const pausedUntil = Date.now() + ms;
    if (pausedUntil > state.pausedUntil) this.#keep({ ...state, pausedUntil });
  }

  #state(): State {
    return this.ctx.storage.kv.get<State>("state") ?? NOTHING;
  }

  #keep(state: State): void {
    this.ctx.storage.kv.put("state", state);
  }
}

/** The first moment after all that was given away at which every window has room. */
function firstAfter(granted: readonly Granted[], cost: number, from: number): number {
  let at = from;
  for (let before = -1; before !== at; ) {
    before = at;
    for (const one of granted) at = earliest(one, { cost, at });
  }
  return at;
}
