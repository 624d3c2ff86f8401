import { cell } from "./cell.ts";
import { readEvents, type ServerEvent } from "./events.ts";
import { problemIn } from "./problem.ts";
import { expired, session } from "./session.ts";

/** How the stream stands; `off` asks again by itself. */
export interface Live {
  state: "connecting" | "live" | "paused" | "hidden" | "off";
  /** When the engine was last heard of, by the stream or by an answer. */
  heardAt: number;
}

/** An event of the stream, as docs/live.md lists them. */
export interface LiveEvent {
  kind: string;
  data: Record<string, unknown>;
}

export const live = cell<Live>({ state: "connecting", heardAt: 0 });

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
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
  document.addEventListener("visibilitychange", () => {
    if (!isPaused()) live.set({ ...live.get(), state: document.hidden ? "hidden" : "connecting" });
    settle();
  });
  settle();
}

/** Opens the stream where it should be open, and closes it where it should not. */
function settle(): void {
  const wanted = session.get().state === "in" && !isPaused() && !document.hidden;
  if (!wanted) {
    following?.abort();
    following = undefined;
  } else if (following === undefined) {
    following = new AbortController();
    void follow(following.signal);
  }
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
        live.set({ state: "live", heardAt: Date.now() });
        pauseMs = FIRST_PAUSE_MS;
        await readEvents(answer.body, (event) => {
          hold.on();
          heardNow();
          if (event) tell(event);
        });
      } else pauseMs = Math.max(pauseMs, Number(answer.headers.get("retry-after")) * 1000);
      // An id that the engine does not know: begin with what happens now.
      if (answer.status === 422) lastId = "";
      if (answer.ok && !over.aborted) continue;
    } catch {
      // Said by the dot below.
    } finally {
      hold.end();
    }
    if (over.aborted) return;
    live.set({ ...live.get(), state: "off" });
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
