import { setTimeout as sleep } from "node:timers/promises";
import { ApiRefusal, isGood, refusalOf } from "../api-client.ts";
import { type AskedEngine, orNotReached } from "../asked-engine.ts";

export interface StreamEvent {
  id?: string;
  event: string;
  data: unknown;
}

/** The engine sends a heartbeat every 15 s, so a connection without a heartbeat for this time is broken. */
const SILENT_MS = 45_000;
/** How long an interrupted stream is connected again, and the pause before each attempt. */
const PATIENCE_MS = 30_000;
const PAUSE_MS = 1000;

/**
 * Yields server-sent events in chunks. An interrupted stream continues after the last received event, until the caller stops reading.
 * Errors: an `ApiRefusal`, or `NotReached` if the first connection fails, or after 30 s without an event.
 */
export async function* streamEvents(engine: AskedEngine, path: string, stop: AbortSignal): AsyncGenerator<StreamEvent[]> {
  let last: string | undefined;
  for (let givenUpAt = Date.now() + PATIENCE_MS; ; ) {
    try {
      for await (const events of connected(engine, path, last, stop)) {
        givenUpAt = Date.now() + PATIENCE_MS;
        last = events.findLast(({ id }) => id !== undefined)?.id ?? last;
        const filled = events.filter(({ data }) => data !== undefined);
        if (filled.length > 0) yield filled;
      }
    } catch (error) {
      stop.throwIfAborted();
      const isFirst = last === undefined;
      const refusal =
        error instanceof ApiRefusal ? error : new ApiRefusal(`${engine.url} gave no answer to GET ${path}.`, { cause: error });
      const mayRecover = refusal.status === undefined || refusal.problem?.retryable === true;
      if (!mayRecover || isFirst || Date.now() > givenUpAt) throw orNotReached(engine, refusal);
    }
    await sleep(PAUSE_MS, undefined, { signal: stop });
  }
}

async function* connected(
  { url, token }: AskedEngine,
  path: string,
  last: string | undefined,
  stop: AbortSignal,
): AsyncGenerator<StreamEvent[]> {
  const silent = new AbortController();
  const timer = setTimeout(() => silent.abort(), SILENT_MS);
  try {
    const response = await fetch(url + path, {
      headers: { authorization: `Bearer ${token}`, accept: "text/event-stream", ...(last !== undefined && { "last-event-id": last }) },
      signal: AbortSignal.any([stop, silent.signal]),
    });
    if (!isGood(response) || !response.body) throw refusalOf(`GET ${path}`, response, await response.text());
    let rest = "";
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      timer.refresh();
      const blocks = (rest + text).split("\n\n");
      rest = blocks.pop() ?? "";
      yield blocks.map(eventIn);
    }
  } finally {
    clearTimeout(timer);
  }
}

function eventIn(block: string): StreamEvent {
  const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
  const [id, data] = [fields.get("id"), fields.get("data")];
  return { ...(id !== undefined && { id }), event: fields.get("event") ?? "", data: data === undefined ? undefined : JSON.parse(data) };
}
