import { problemIn } from "./problem.ts";
import { expired, session } from "./session.ts";

export interface ServerEvent {
  id?: string;
  event?: string;
  data: Record<string, unknown>;
}

interface Stream {
  path: string;
  over: AbortSignal;
  /** The id of the last event, after which the next connection continues. */
  last: { id: string };
  /** Called for each event, and with undefined for a sign of life. */
  hear: (event: ServerEvent | undefined) => void;
  turn?: (state: "live" | "connecting" | "off") => void;
  /** True if the API ends or refuses the stream when the stream will have no more events. */
  mayEnd?: boolean;
}

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const MOST_ASKED_MS = 3_600_000;
/** The engine sends at least one line every 15 seconds. */
const SILENCE_MS = 40_000;

/** Follows a stream of server-sent events, and reconnects until `over` aborts. */
export async function follow({ path, over, last, hear, turn = () => {}, mayEnd = false }: Stream): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  while (!over.aborted) {
    const { token } = session.get();
    // A lost connection may cause no error, so that a connection also ends after a time without data, and when the browser goes offline.
    const silent = new AbortController();
    const silence = once("offline", SILENCE_MS, () => silent.abort());
    try {
      const answer = await fetch(path, {
        headers: { ...(token && { authorization: `Bearer ${token}` }), ...(last.id && { "last-event-id": last.id }) },
        signal: AbortSignal.any([over, silent.signal]),
      });
      const { status } = answer;
      if (status === 401) return expired(await problemIn(answer));
      if (mayEnd && (status === 204 || (status >= 400 && status < 500 && status !== 429))) return;
      if (answer.ok && answer.body) {
        turn("live");
        pauseMs = FIRST_PAUSE_MS;
        await readEvents(answer.body, (event) => {
          silence.again();
          last.id = event?.id ?? last.id;
          hear(event);
        });
      } else pauseMs = Math.max(pauseMs, askedMs(answer));
      // Status 422 means that the engine does not know the id of the last event, so the stream continues with new events.
      if (status === 422) last.id = "";
      // The engine ends a stream from time to time. The delay before the next request avoids a busy loop if a proxy ends each stream
      // immediately.
      if (!over.aborted) turn(answer.ok ? "connecting" : "off");
    } catch {
      if (!over.aborted) turn("off");
    } finally {
      silence.end();
    }
    if (over.aborted) return;
    await new Promise<void>((resolve) => once("online", pauseMs, resolve));
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}

/** Calls `act` once: at an event of the window, or after a time without a call of `again`. */
function once(event: "online" | "offline", ms: number, act: () => void): { again: () => void; end: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    clearTimeout(timer);
    removeEventListener(event, now);
  };
  const now = () => {
    end();
    act();
  };
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(now, ms);
  };
  addEventListener(event, now);
  again();
  return { again, end };
}

/** The engine's `Retry-After` is in seconds. If a proxy sends a date, the date is ignored. */
function askedMs({ headers }: Response): number {
  const seconds = Number(headers.get("retry-after"));
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, MOST_ASKED_MS) : 0;
}

/** Reads server-sent events until the stream ends. If a chunk completes no event, calls `tell` with undefined. */
async function readEvents(body: ReadableStream<Uint8Array>, tell: (event: ServerEvent | undefined) => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (left + decoder.decode(value, { stream: true })).split("\n\n");
    left = events.pop() ?? "";
    if (events.length === 0) tell(undefined);
    for (const event of events) tell(eventOf(event));
  }
}

function eventOf(text: string): ServerEvent {
  const fields = new Map(text.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as const));
  const [id, event] = [fields.get("id"), fields.get("event")];
  return { ...(id !== undefined && { id }), ...(event !== undefined && { event }), data: JSON.parse(fields.get("data") ?? "{}") };
}
