import { cell } from "./cell.ts";
import { readEvents, type ServerEvent } from "./events.ts";
import { problemIn } from "./problem.ts";
import { expired, session } from "./session.ts";

/** How the stream stands; `off` asks again by itself. */
export interface Live {
  state: "connecting" | "live" | "paused" | "hidden" | "off";
  /** When the engine was last heard of, by the stream or by an answer. */
  heardAt: number;
  /** Since when something on the page is known to be older than that: what happened then is not read yet. 0 where nothing is. */
  behindSince: number;
}

/** An event of the stream, as docs/live.md lists them. */
export interface LiveEvent {
  kind: string;
  data: Record<string, unknown>;
}

export const live = cell<Live>({ state: "connecting", heardAt: 0, behindSince: 0 });

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const MOST_ASKED_MS = 3_600_000;
/** The engine gives a sign of life every 15 seconds. */
const SILENCE_MS = 40_000;

const hearers = new Set<(event: LiveEvent) => void>();
let lastId = "";
let following: AbortController | undefined;

/** Hears what happens; answers how to stop. */
export function hear(hearer: (event: LiveEvent) => void): () => void {
  hearers.add(hearer);
  return () => void hearers.delete(hearer);
}

/** Something was just read: what is shown is as new as that. */
export function heardNow(): void {
  live.set({ ...live.get(), heardAt: Date.now() });
}

/** What of the page is behind, and since when. */
const behind = new Map<object, number>();

/** Something has happened that this part of the page does not show yet. */
export function fallBehind(part: object): void {
  if (!behind.has(part)) setBehind(part, Date.now());
}

/** A part shows what was so at a time, or is gone from the page. */
export function caughtUp(part: object, asOf = Number.POSITIVE_INFINITY): void {
  const since = behind.get(part);
  if (since !== undefined) setBehind(part, since <= asOf ? undefined : since);
}

function setBehind(part: object, since: number | undefined): void {
  if (since === undefined) behind.delete(part);
  else behind.set(part, since);
  live.set({ ...live.get(), behindSince: behind.size === 0 ? 0 : Math.min(...behind.values()) });
}

/** Stops everything that comes by itself, or lets it come again. */
export function pause(paused: boolean): void {
  live.set({ ...live.get(), state: paused ? "paused" : "connecting" });
  settle();
}

export const isPaused = () => live.get().state === "paused";

/** Follows what happens in the tenant while somebody looks. Call it once. */
export function followLive(): void {
  session.listen(() => {
    following?.abort();
    following = undefined;
    settle();
  });
  document.addEventListener("visibilitychange", settle);
  settle();
}

/** Opens the stream where it should be open, and closes it where it should not. */
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
      // An id that the engine does not know: begin with what happens now.
      if (answer.status === 422) lastId = "";
      // The engine ends a stream now and then. It is asked again behind a pause: one that is ended at once, by a proxy, is no loop.
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
 * A connection's signal: it is given up with `over`, where nothing is heard for long, and where the browser says that it has no network. A
 * connection that is gone may say nothing of it.
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

/** The engine's own `Retry-After` is in seconds. A proxy before it may send a date: that is no number, and the back-off is the pause. */
function askedMs({ headers }: Response): number {
  const seconds = Number(headers.get("retry-after"));
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, MOST_ASKED_MS) : 0;
}

/** A pause that is over at once where the browser says that it has a network again. */
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
