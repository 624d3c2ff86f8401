import { MillraceError, retryAfter } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import type { Answer, Ask, RateLimit } from "./rate-limit.ts";
import type { Window } from "./windows.ts";

/** What a limit needs of a Worker's env: the Durable Object `RateLimit`, bound as RATE_LIMIT. */
export interface LimitEnv {
  RATE_LIMIT: DurableObjectNamespace<RateLimit>;
}

export interface LimitOptions {
  /** The longest wait in a take, in milliseconds. Default: 20 seconds, short beside the 60 that a step's attempt has by default. */
  patienceMs?: number;
  /**
   * What a call may take from its grant to its arrival, in milliseconds, without the upstream ever seeing more than the limit.
   * Default: 1 second. Costs its share of the period: 100 per 10 s becomes 100 per 11 s.
   */
  marginMs?: number;
}

/** One limit, shared by all who name it. */
export interface Limit {
  /**
   * Waits until `cost` more is allowed (default 1), in the order in which callers asked. Errors: `retry_after` when that would be
   * longer than the patience; `config_invalid` when it will never be; `unavailable` when this isolate is too slow to keep a moment.
   */
  take(cost?: number): Promise<void>;
  /** Holds everybody back for so long, in milliseconds: the upstream said that it has had enough. */
  pause(ms: number): Promise<void>;
}

const PATIENCE_MS = 20_000;
const MARGIN_MS = 1_000;
/** Slots that may expire unused before `take` gives up: its machine is far too busy then. */
const MAX_MISSED_SLOTS = 5;

/**
 * The limit of this name. The windows belong to the caller's configuration and go with each question, so a changed one holds at once.
 * Whoever shares a name must say the same windows.
 */
export function limitOf(env: LimitEnv, name: string, windows: readonly Window[], options: LimitOptions = {}): Limit {
  const { patienceMs = PATIENCE_MS, marginMs = MARGIN_MS } = options;
  // RPC's mapped types lose the class; the methods are these two.
  const object = env.RATE_LIMIT.getByName(name, placed(env)) as unknown as {
    take(ask: Ask): Promise<Answer>;
    pause(ms: number): Promise<void>;
  };
  return {
    async take(cost = 1) {
      const least = Math.min(...windows.map(({ limit }) => limit));
      if (!(cost > 0 && cost <= least)) {
        throw new MillraceError(
          "config_invalid",
          `${cost} never fits into the limit "${name}", which is ${least}. Ask for less or raise it.`,
        );
      }
      let unused: number | undefined;
      for (let missed = 0; missed < MAX_MISSED_SLOTS; missed++) {
        const { go, at, waitMs } = await object.take({ windows, cost, patienceMs, marginMs, unused });
        if (!go) throw retryAfter(waitMs, `The limit "${name}" has no room for ${Math.ceil(waitMs / 1000)} s. Nothing was sent.`);
        if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
        // Half of the margin is for the way back from the limiter, late timers and clocks that differ, half for the way to the upstream.
        if (Date.now() - at <= marginMs / 2) return;
        unused = at;
      }
      throw new MillraceError("unavailable", `This machine is too busy to keep to the limit "${name}". Nothing was sent.`);
    },
    pause: (ms) => object.pause(ms),
  };
}
