import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import type { LimitEnv } from "./client.ts";
import type { Lease, LeaseAsk } from "./plan.ts";
import type { Window } from "./windows.ts";

interface Known {
  /** Permits that this isolate used without a call to the limiter, since `freeSince`. */
  free: number;
  freeSince: number;
  /** Used permits that are not reported to the limiter yet. */
  untold: number;
  permits: number;
  permitsUntil: number;
  refusedUntil: number;
  /** The permits that the limiter reported at `leftAt`, minus the permits that this isolate has used since `leftAt`. */
  left: number;
  leftAt: number;
  isAsking: boolean;
}

/**
 * Share of a period's limit that an isolate may use without a call to the limiter. Therefore a caller far below the limit costs no call to
 * the limiter.
 */
const FREE_SHARE = 1 / 20;
/**
 * `LEASE_SHARE`: the share of the limit that a lease takes in advance. `LEASE_TIME_SHARE`: the share of the period within which the lease
 * must be used.
 */
const LEASE_SHARE = 1 / 40;
const LEASE_TIME_SHARE = 1 / 10;
/** Maximum number of names of limits that an isolate stores. Above this number, the oldest names are removed. */
const MOST_NAMES = 10_000;

/**
 * Rate limits for an isolate that counts many requests. An isolate requests several permits at once from the limiter. The isolate makes no
 * call to the limiter while a caller is far below the limit, or while an earlier refusal of the caller lasts. Per period, each isolate can
 * exceed the limit by a twentieth, and can leave a fortieth of the limit unused. Otherwise the limit is exact.
 */
export class Leases {
  readonly #known = new Map<string, Known>();

  /**
   * Uses one permit. Returns 0, or the milliseconds until a permit is free. The function makes at most one call to the limiter. If that
   * call fails, the function returns 0.
   */
  async spend(env: LimitEnv, name: string, window: Window): Promise<number> {
    const known = this.#knownAs(name);
    const now = Date.now();
    if (known.refusedUntil > now) return known.refusedUntil - now;
    if (now - known.freeSince >= window.periodMs) Object.assign(known, { free: 0, freeSince: now });
    if (now - known.leftAt >= window.periodMs) Object.assign(known, { left: window.limit, leftAt: now });
    known.left = Math.max(0, known.left - 1);
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

  /**
   * Returns the remaining permits; undefined for a name that this isolate has not used. The result ignores what other isolates have used
   * since this isolate's last call to the limiter.
   */
  leftOf(name: string): number | undefined {
    return this.#known.get(name)?.left;
  }

  /** Remaining time of a known refusal in milliseconds; 0 if the caller is not refused. */
  refusedFor(name: string): number {
    return Math.max(0, (this.#known.get(name)?.refusedUntil ?? 0) - Date.now());
  }

  async #ask(env: LimitEnv, name: string, window: Window, known: Known): Promise<number> {
    // While one request fetches a lease, the other requests take only one permit each, so that all requests together do not take too many
    // permits.
    const isFirst = !known.isAsking;
    const most = isFirst ? Math.max(1, Math.floor(window.limit * LEASE_SHARE)) : 1;
    const forMs = Math.ceil(window.periodMs * LEASE_TIME_SHARE);
    const used = known.untold;
    const askedAt = Date.now();
    known.untold = 0;
    known.isAsking = true;
    try {
      const object = objectBinding(env, "RATE_LIMIT").getByName(name, placed(env)) as unknown as { lease(ask: LeaseAsk): Promise<Lease> };
      const { given, left, waitMs } = await object.lease({ window, most, used, forMs });
      if (given === 0) known.refusedUntil = Math.max(known.refusedUntil, Date.now() + waitMs);
      else if (isFirst) Object.assign(known, { permits: given - 1, permitsUntil: askedAt + forMs });
      Object.assign(known, { left: left + known.permits, leftAt: askedAt });
      return given === 0 ? Math.max(1, waitMs) : 0;
    } catch {
      // If the limiter fails, requests pass, because a rate limit protects the system and grants no rights.
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
    const known = {
      free: 0,
      freeSince: Date.now(),
      untold: 0,
      permits: 0,
      permitsUntil: 0,
      refusedUntil: 0,
      left: 0,
      leftAt: 0,
      isAsking: false,
    };
    this.#known.set(name, known);
    return known;
  }
}
