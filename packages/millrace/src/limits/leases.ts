import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import type { LimitEnv } from "./client.ts";
import type { Lease, LeaseAsk } from "./plan.ts";
import type { Window } from "./windows.ts";

/** What an isolate has of a limit. */
interface Known {
  /** Spent without asking, since `freeSince`. */
  free: number;
  freeSince: number;
  /** Of these the limiter has not heard. */
  untold: number;
  permits: number;
  permitsUntil: number;
  refusedUntil: number;
  isAsking: boolean;
}

/** What an isolate lets through of a period without asking anybody: a caller far below its limit costs no call. */
const FREE_SHARE = 1 / 20;
/** What it takes in advance, and within which share of the period it spends that. */
const LEASE_SHARE = 1 / 40;
const LEASE_TIME_SHARE = 1 / 10;
/** Names that an isolate remembers; the oldest are forgotten first. */
const MOST_NAMES = 10_000;

/**
 * Limits as an isolate sees them that counts its callers' requests: it asks the limiter for several permits at once, and for none while a
 * caller is far below its limit or is refused anyway. Each isolate may so let through a twentieth of the limit beyond it in a period, and
 * waste a fortieth of it that it took and did not spend; nothing else is inexact.
 */
export class Leases {
  readonly #known = new Map<string, Known>();

  /** Spends one: answers 0, or the milliseconds until there will be room. At most one call to the limiter; where that fails, 0. */
  async spend(env: LimitEnv, name: string, window: Window): Promise<number> {
    const known = this.#knownAs(name);
    const now = Date.now();
    if (known.refusedUntil > now) return known.refusedUntil - now;
    if (now - known.freeSince >= window.periodMs) Object.assign(known, { free: 0, freeSince: now });
    if (known.free < Math.floor(window.limit * FREE_SHARE)) {
      known.free++;
      known.untold++;
      return 0;
    }
    if (known.permits > 0 && known.permitsUntil > now) {
      known.permits--;
      return 0;
    }
    return this.#ask(env, name, window, known);
  }

  /** How long a caller is still refused, in milliseconds, as far as this isolate knows; 0 where it is not. */
  refusedFor(name: string): number {
    return Math.max(0, (this.#known.get(name)?.refusedUntil ?? 0) - Date.now());
  }

  async #ask(env: LimitEnv, name: string, window: Window, known: Known): Promise<number> {
    // Beside a request that fetches a lease, the others ask for themselves alone: together they would take far too much.
    const isFirst = !known.isAsking;
    const most = isFirst ? Math.max(1, Math.floor(window.limit * LEASE_SHARE)) : 1;
    const forMs = Math.ceil(window.periodMs * LEASE_TIME_SHARE);
    const used = known.untold;
    const askedAt = Date.now();
    known.untold = 0;
    known.isAsking = true;
    try {
      const object = objectBinding(env, "RATE_LIMIT").getByName(name, placed(env)) as unknown as { lease(ask: LeaseAsk): Promise<Lease> };
      const { given, waitMs } = await object.lease({ window, most, used, forMs });
      if (given === 0) known.refusedUntil = Math.max(known.refusedUntil, Date.now() + waitMs);
      else if (isFirst) Object.assign(known, { permits: given - 1, permitsUntil: askedAt + forMs });
      return given === 0 ? Math.max(1, waitMs) : 0;
    } catch {
      // A limit protects what is behind it, and proves nothing: a failing one holds nobody back.
      return 0;
    } finally {
      if (isFirst) known.isAsking = false;
    }
  }

  #knownAs(name: string): Known {
    const found = this.#known.get(name);
    if (found) return found;
    const [oldest = ""] = this.#known.size >= MOST_NAMES ? this.#known.keys() : [];
    this.#known.delete(oldest);
    const known = { free: 0, freeSince: Date.now(), untold: 0, permits: 0, permitsUntil: 0, refusedUntil: 0, isAsking: false };
    this.#known.set(name, known);
    return known;
  }
}
