import { cell } from "./cell.ts";
import { readEvents, type ServerEvent } from "./events.ts";
import { problemIn } from "./problem.ts";
import { expired, session } from "./session.ts";

/** State of the stream. `off` reconnects automatically. */
export interface Live {
  state: "connecting" | "live" | "paused" | "hidden" | "off";
  heardAt: number;
  /** The time of the oldest change that the page does not show yet. 0 if the page shows all changes. */
  behindSince: number;
}

/** An event of the live stream (docs/live.md). */
export interface LiveEvent {
  kind: string;
  data: Record<string, unknown>;
}

export const live = cell<Live>({ state: "connecting", heardAt: 0, behindSince: 0 });

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const MOST_ASKED_MS = 3_600_000;
/** The engine sends at least one line every 15 seconds. */
const SILENCE_MS = 40_000;

const hearers = new Set<(event: LiveEvent) => void>();
let lastId = "";
let following: AbortController | undefined;

export function hear(hearer: (event: LiveEvent) => void): () => void {
  hearers.add(hearer);
  return () => void hearers.delete(hearer);
}

export function heardNow(): void {
  live.set({ ...live.get(), heardAt: Date.now() });
}

const behind = new Map<object, number>();

export function fallBehind(part: object): void {
  if (!behind.has(part)) setBehind(part, Date.now());
}

export function caughtUp(part: object, asOf = Number.POSITIVE_INFINITY): void {
  const since = behind.get(part);
  if (since !== undefined) setBehind(part, since <= asOf ? undefined : since);
}

function setBehind(part: object, since: number | undefined): void {
  if (since === undefined) behind.delete(part);
  else behind.set(part, since);
  live.set({ ...live.get(), behindSince: behind.size === 0 ? 0 : Math.min(...behind.values()) });
}

export function pause(paused: boolean): void {
  live.set({ ...live.get(), state: paused ? "paused" : "connecting" });
  settle();
}

export const isPaused = () => live.get().state === "paused";

/** Follows the tenant's events while the page is visible. This function must be called only once. */
export function followLive(): void {
  session.listen(() => {
    following?.abort();
    following = undefined;
    settle();
  });
  document.addEventListener("visibilitychange", settle);
  settle();
}

function settle(): void {
  const isSignedIn = session.get().state === "in";
  if (isSignedIn && !isPaused() && !document.hidden) {
    if (following !== undefined) return;
    following = new AbortController();
    live.set({ ...live.get(), state: "connecting" });
    return void follow(following.signal);
  }
  following?.abort();
  following = undefined;
  if (!isPaused()) live.set({ ...live.get(), state: isSignedIn ? "hidden" : "off" });
}

async function follow(over: AbortSignal): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  while (!over.aborted) {
    const { token } = session.get();
    const hold = held(over);
    try {
      const answer = await fetch("/v1/stream", {
        headers: { ...(token && { authorization: `Bearer ${token}` }), ...(lastId && { "last-event-id": lastId }) },
        signal: hold.signal,
      });
      if (answer.status === 401) return expired(await problemIn(answer));
      if (answer.ok && answer.body) {
        live.set({ ...live.get(), state: "live", heardAt: Date.now() });
        pauseMs = FIRST_PAUSE_MS;
        await readEvents(answer.body, (event) => {
          hold.on();
          heardNow();
          if (event) tell(event);
        });
      } else pauseMs = Math.max(pauseMs, askedMs(answer));
      // Status 422 means that the engine does not know the id of the last event, so the stream continues with new events.
      if (answer.status === 422) lastId = "";
      // The engine ends a stream from time to time. The delay before the next request avoids a busy loop if a proxy ends each stream
      // immediately.
      if (!over.aborted) live.set({ ...live.get(), state: answer.ok ? "connecting" : "off" });
    } catch {
      if (!over.aborted) live.set({ ...live.get(), state: "off" });
    } finally {
      hold.end();
    }
    if (over.aborted) return;
    await pausedFor(pauseMs);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}

/**
 * Returns an abort signal for a connection. The signal aborts when `over` aborts, after `SILENCE_MS` without data, and when the browser
 * goes offline. This is needed because a lost connection may cause no error.
 */
function held(over: AbortSignal): { signal: AbortSignal; on: () => void; end: () => void } {
  const silent = new AbortController();
  const cut = () => silent.abort();
  let timer = setTimeout(cut, SILENCE_MS);
  addEventListener("offline", cut);
  return {
    signal: AbortSignal.any([over, silent.signal]),
    on() {
      clearTimeout(timer);
      timer = setTimeout(cut, SILENCE_MS);
    },
    end() {
      clearTimeout(timer);
      removeEventListener("offline", cut);
    },
  };
}

/** The engine's `Retry-After` is in seconds. If a proxy sends a date, the date is ignored. */
function askedMs({ headers }: Response): number {
  const seconds = Number(headers.get("retry-after"));
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, MOST_ASKED_MS) : 0;
}

/** Waits for a time, or until the browser is online again. */
function pausedFor(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
  });
}

function tell({ id, event, data }: ServerEvent): void {
  lastId = id ?? lastId;
  if (event !== undefined) for (const hearer of [...hearers]) hearer({ kind: event, data });
}
