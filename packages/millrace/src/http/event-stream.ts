import type { Context } from "hono";
import * as z from "zod";
import type { Token } from "../access/tokens.ts";
import { MillraceError } from "../contract/errors.ts";
import type { HttpEnv } from "./env.ts";

const EVENT_STREAM = "text/event-stream";

export interface StreamEvent {
  /** The id that a client sends as `Last-Event-ID` to continue after this event. */
  readonly id: string;
  readonly event: string;
  readonly data: unknown;
}

export interface Look {
  readonly events: readonly StreamEvent[];
  /** The position after this poll, from which the next connection continues. A poll without events has a position too. */
  readonly place?: string;
  readonly isOver?: boolean;
}

/** A source of events, and its poll interval. */
export interface Followed {
  /** Polls for the events since the previous poll. */
  look(): Promise<Look>;
  /** Called before each poll except the first. Returns false if the caller may no longer read the stream. */
  mayRead(): Promise<boolean>;
  /** Resolves when a poll is worthwhile before the end of a pause. No pause is shorter than the first value of `pausesMs`. */
  sooner?(): Promise<unknown>;
  close?(): void;
  /** Poll interval in ms: the first value after events, then 50 % longer each time, up to the longest. */
  readonly pausesMs: readonly [first: number, longest: number];
  /** Duration of the stream. The client reconnects after the end of the stream. */
  readonly lastsMs: number;
  /** Limit of the stream as a number of polls with events. Default: no limit. */
  readonly mostNews?: number;
}

/** Pace of the engine's own streams: at most 120 polls a minute with events, and 30 polls a minute without events. */
export const STREAM_PACE = { pausesMs: [500, 2000], lastsMs: 180_000, mostNews: 100 } as const;

/** Interval of keep-alive comments, which are sent because proxies close idle connections. */
const SIGN_OF_LIFE_MS = 15_000;
/** Delay after which a client reconnects. */
const RETRY_MS = 1000;
const RETRY = `retry: ${RETRY_MS}\n\n`;

/** Query of a stream for browsers, because an EventSource sends no custom headers, and a new EventSource sends no `Last-Event-ID`. */
export const streamQuery = {
  token: z.string().max(2000).optional().describe("A stream token for this path (`POST /v1/stream-tokens`), instead of `Authorization`."),
  last_event_id: z.string().max(1000).optional().describe("Used if the header `Last-Event-ID` is missing."),
};

export const streamHeaders = z.object({
  "last-event-id": z.string().max(1000).optional().describe("The id of the last event received."),
});

export const streamed = (description: string) => ({ description, content: { [EVENT_STREAM]: { schema: z.string() } } });

/** The id of the last event that the client received; undefined on its first connection. */
export function lastEventId({ req }: Pick<Context, "req">): string | undefined {
  return req.header("last-event-id") || req.query("last_event_id") || undefined;
}

type Opening = Pick<Context<HttpEnv>, "req" | "var" | "body">;

/**
 * Responds with server-sent events until the source is complete, the duration is over, the caller may no longer read, or the connection
 * closes. Errors: `rate_limited` if the caller or its tenant has too many open streams.
 */
export function answerEvents(context: Opening, follow: () => Followed): Response {
  const headers = { "content-type": EVENT_STREAM };
  if (context.req.method === "HEAD") return context.body(null, 200, headers);
  const release = holdStream(context.var.caller);
  const hungUp = new AbortController();
  const { signal } = context.req.raw;
  signal?.addEventListener("abort", () => hungUp.abort(), { once: true });
  const texts = tell(follow(), hungUp.signal, release);
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    // Polls only when the client reads the stream.
    async pull(controller) {
      const { value, done } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      release();
      hungUp.abort();
      await texts.return(undefined);
    },
  });
  return context.body(body, 200, headers);
}

async function* tell(followed: Followed, hungUp: AbortSignal, release: () => void): AsyncGenerator<string, void> {
  const { lastsMs, mostNews = Number.POSITIVE_INFINITY } = followed;
  const [first, longest] = followed.pausesMs;
  const endsAt = Date.now() + lastsMs;
  let [spokeAt, pauseMs, looks, news] = [Date.now(), first, 0, 0];
  try {
    yield RETRY;
    while (!hungUp.aborted) {
      const { events, place, isOver } = await followed.look();
      const isNews = events.length > 0;
      if (isNews || looks++ === 0) yield events.map(textOf).join("") + placeOf(place);
      else if (Date.now() - spokeAt > SIGN_OF_LIFE_MS) yield `: alive\n${placeOf(place) || "\n"}`;
      if (isNews || Date.now() - spokeAt > SIGN_OF_LIFE_MS) spokeAt = Date.now();
      if (isOver) return;
      pauseMs = isNews ? first : Math.min(pauseMs * 1.5, longest);
      if (isNews) news++;
      if (Date.now() >= endsAt || news >= mostNews) return yield RETRY;
      await pause(first, undefined, hungUp);
      await pause(pauseMs - first, followed.sooner?.(), hungUp);
      if (hungUp.aborted || !(await followed.mayRead())) return;
    }
  } finally {
    release();
    followed.close?.();
  }
}

async function pause(ms: number, sooner: Promise<unknown> | undefined, hungUp: AbortSignal): Promise<void> {
  if (ms <= 0 || hungUp.aborted) return;
  const aborted = new Promise((resolve) => hungUp.addEventListener("abort", resolve, { once: true }));
  await Promise.race([scheduler.wait(ms), aborted, ...(sooner ? [sooner] : [])]);
}

/** JSON contains no line breaks, so the data fits in one line. */
function textOf({ id, event, data }: StreamEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** An id without data changes the client's position in the stream, and is no event. */
function placeOf(place: string | undefined): string {
  return place === undefined ? "" : `id: ${place}\n\n`;
}

/** Limits of open streams in one isolate: per token or user, per first token with its descendants, per tenant. */
const BOUNDS: readonly { most: number; of: (caller: Token) => string; holder: string }[] = [
  { most: 10, of: ({ id }) => `token ${id}`, holder: "This token holds" },
  { most: 30, of: ({ rootId }) => `family ${rootId}`, holder: "The tokens minted from the same first token hold" },
  { most: 60, of: ({ tenantId }) => `tenant ${tenantId}`, holder: "The tokens of this tenant hold" },
];

/** After this time a stream is no longer counted, in case its connection closed without a signal. No stream lasts longer than this time. */
const FORGOTTEN_AFTER_MS = 300_000;
const FULL_MS = 10_000;

/** The open streams by the name of each limit, with the time when each is no longer counted. */
const open = new Map<string, Set<{ until: number }>>();

/** Counts an open stream until it is released. Errors: `rate_limited` if a limit is reached. */
function holdStream(caller: Token): () => void {
  const counted = BOUNDS.map(({ of, ...bound }) => ({ ...bound, name: of(caller), held: heldBy(of(caller)) }));
  const full = counted.find(({ held, most }) => held.size >= most);
  if (full) {
    const next = `Close one, follow the whole engine with GET /v1/stream, or retry in ${FULL_MS / 1000} s.`;
    throw new MillraceError("rate_limited", `${full.holder} ${full.most} streams open here. ${next}`, { delayMs: FULL_MS });
  }
  const stream = { until: Date.now() + FORGOTTEN_AFTER_MS };
  for (const { name, held } of counted) open.set(name, held.add(stream));
  return () => {
    for (const { name, held } of counted) {
      held.delete(stream);
      if (held.size === 0 && open.get(name) === held) open.delete(name);
    }
  };
}

function heldBy(name: string): Set<{ until: number }> {
  const held = open.get(name) ?? new Set();
  for (const one of held) if (one.until <= Date.now()) held.delete(one);
  return held;
}
