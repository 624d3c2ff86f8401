import { DurableObject } from "cloudflare:workers";
import { type Counts, counted, earliest, type Window } from "./windows.ts";

export interface Ask {
  windows: readonly Window[];
  /** How many of what is limited. */
  cost: number;
  /** The longest wait, in milliseconds, that is worth a reservation. */
  patienceMs: number;
  /** By how much a period is lengthened, in milliseconds. */
  marginMs: number;
}

/** `go` is a reservation for the moment in `waitMs`. Without it nothing was reserved, and before `waitMs` nothing will be free. */
export interface Answer {
  go: boolean;
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
 * owner hears of it, so neither an eviction nor a crash lets anything go twice. A caller that dies with its moment wastes it; none is
 * given twice. What it keeps is bounded by the windows and the patience, not by the traffic.
 */
export class RateLimit extends DurableObject {
  take({ windows, cost, patienceMs, marginMs }: Ask): Answer {
    const now = Date.now();
    const state = this.#state();
    let at = Math.max(now, state.lastAt, state.pausedUntil);
    for (let before = -1; before !== at; ) {
      before = at;
      for (const window of windows) at = earliest(window, state.counts[window.periodMs] ?? [], at, cost, marginMs);
    }
    const waitMs = at - now;
    if (waitMs > patienceMs) return { go: false, waitMs };

    const counts = { ...state.counts };
    for (const window of windows) counts[window.periodMs] = counted(window, counts[window.periodMs] ?? [], at, cost, now, marginMs);
    this.#keep({ lastAt: at, pausedUntil: state.pausedUntil, counts });
    return { go: true, waitMs };
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
