import type { Context } from "hono";
import * as z from "zod";
import type { HttpEnv } from "./env.ts";
import { holdStream } from "./open-streams.ts";

const EVENT_STREAM = "text/event-stream";

/** One event of a stream. */
export interface StreamEvent {
  /** What a client sends as `Last-Event-ID` to hear what comes behind it. */
  readonly id: string;
  readonly event: string;
  readonly data: unknown;
}

/** What one look has found. */
export interface Look {
  readonly events: readonly StreamEvent[];
  /** An id behind all that has happened, for the client to come back with: also where nothing is told. */
  readonly place?: string;
  /** True when nothing more will come. */
  readonly isOver?: boolean;
}

/** What is followed, and how patiently. */
export interface Followed {
  /** Looks for what has happened since the look before. */
  look(): Promise<Look>;
  /** Asked before each look but the first: false where the caller may not read any more. */
  mayRead(): Promise<boolean>;
  /** Comes where there is something to look at before a longer pause is over; no pause is shorter than the first. */
  sooner?(): Promise<unknown>;
  /** What is held while it is followed. */
  close?(): void;
  /** Between two looks: the first pause comes behind news, each further one is longer by half, up to the longest. */
  readonly pausesMs: readonly [first: number, longest: number];
  /** When the stream ends, and the client asks again. */
  readonly lastsMs: number;
  /** The same by looks that found something. Default: any number. */
  readonly mostNews?: number;
}

/** The pace of the engine's own streams: at most 120 looks a minute while there is news, 30 while there is none. */
export const STREAM_PACE = { pausesMs: [500, 2000], lastsMs: 180_000, mostNews: 100 } as const;

/** A proxy that hears nothing for long hangs up. */
const SIGN_OF_LIFE_MS = 15_000;
/** When a client asks again whose stream has ended, or broken off. */
const RETRY_MS = 1000;
const RETRY = `retry: ${RETRY_MS}\n\n`;

/** How a stream is asked for by a browser: its EventSource sends no headers of ours, and a new one no `Last-Event-ID`. */
export const streamQuery = {
  token: z.string().max(2000).optional().meta({
    description: "A stream token for this path (`POST /v1/stream-tokens`), instead of `Authorization`.",
  }),
  last_event_id: z.string().max(1000).optional().meta({ description: "Used if the header `Last-Event-ID` is missing." }),
};

export const streamHeaders = z.object({
  "last-event-id": z.string().max(1000).optional().meta({ description: "The id of the last event received." }),
});

/** The answer of a stream in the document. */
export const streamed = (description: string) => ({ description, content: { [EVENT_STREAM]: { schema: z.string() } } });

/** The id of the last event that a client has heard; undefined where it has heard none. */
export function heardLast({ req }: Pick<Context, "req">): string | undefined {
  return req.header("last-event-id") || req.query("last_event_id") || undefined;
}

/** Who opens a stream, and what hears that nobody listens any more. */
type Opening = Pick<Context<HttpEnv>, "req" | "var" | "body">;

/**
 * Answers with server-sent events: looks, tells, pauses, and says now and then that it lives. It ends when all is told, when its time is
 * over, when the caller may not read any more, and with its connection: no look is begun after that. A HEAD is answered by the headers
 * alone. Errors: `rate_limited` where too many streams of the caller or its tenant are open here.
 */
export function answerEvents(context: Opening, follow: () => Followed): Response {
  const headers = { "content-type": EVENT_STREAM };
  if (context.req.method === "HEAD") return context.body(null, 200, headers);
  const release = holdStream(context.var.caller);
  const hungUp = new AbortController();
  const { signal } = context.req.raw;
  signal?.addEventListener("abort", () => hungUp.abort(), { once: true });
  const texts = tell(follow(), hungUp.signal);
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    // The client's patience is the brake: nothing is looked for before it is asked for.
    async pull(controller) {
      try {
        const { value, done } = await texts.next();
        if (!done) return controller.enqueue(encoder.encode(value));
        release();
        controller.close();
      } catch (error) {
        release();
        controller.error(error);
      }
    },
    async cancel() {
      release();
      hungUp.abort();
      await texts.return(undefined);
    },
  });
  return context.body(body, 200, headers);
}

async function* tell(followed: Followed, hungUp: AbortSignal): AsyncGenerator<string> {
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
    followed.close?.();
  }
}

/** Until the time is over, there is something to look at, or nobody listens any more. */
async function pause(ms: number, sooner: Promise<unknown> | undefined, hungUp: AbortSignal): Promise<void> {
  if (ms <= 0 || hungUp.aborted) return;
  const aborted = new Promise((resolve) => hungUp.addEventListener("abort", resolve, { once: true }));
  await Promise.race([scheduler.wait(ms), aborted, ...(sooner ? [sooner] : [])]);
}

/** JSON has no line ends of its own, so that one line is the whole. */
function textOf({ id, event, data }: StreamEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** An id alone tells nobody anything, and moves the client's place. */
function placeOf(place: string | undefined): string {
  return place === undefined ? "" : `id: ${place}\n\n`;
}
