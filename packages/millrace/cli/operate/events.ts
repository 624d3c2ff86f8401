import { setTimeout as sleep } from "node:timers/promises";
import { ApiRefusal, isGood, refusalOf } from "../api-client.ts";
import { type AskedEngine, orNotReached } from "../asked-engine.ts";

/** An event of a stream. */
export interface StreamEvent {
  id?: string;
  event: string;
  data: unknown;
}

/** The engine says that it lives every 15 s: a connection that is silent for longer is none. */
const SILENT_MS = 45_000;
/** How long a stream that has broken off is asked for again, and after which pause each time. */
const PATIENCE_MS = 30_000;
const PAUSE_MS = 1000;

/**
 * What a stream of server-sent events tells, in the pieces in which it arrives. Where it ends or breaks off it goes on behind what was
 * heard; who has heard what ends it asks no more. Errors: an `ApiRefusal`; `NotReached` where nothing was heard for half a minute.
 */
export async function* heardOf(engine: AskedEngine, path: string, stop: AbortSignal): AsyncGenerator<StreamEvent[]> {
  let last: string | undefined;
  for (let givenUpAt = Date.now() + PATIENCE_MS; ; ) {
    try {
      for await (const events of connected(engine, path, last, stop)) {
        givenUpAt = Date.now() + PATIENCE_MS;
        last = events.findLast(({ id }) => id !== undefined)?.id ?? last;
        const told = events.filter(({ data }) => data !== undefined);
        if (told.length > 0) yield told;
      }
    } catch (error) {
      stop.throwIfAborted();
      const isFirst = last === undefined;
      const refusal =
        error instanceof ApiRefusal ? error : new ApiRefusal(`${engine.url} gave no answer to GET ${path}.`, { cause: error });
      const mayPass = refusal.status === undefined || refusal.problem?.retryable === true;
      if (!mayPass || isFirst || Date.now() > givenUpAt) throw orNotReached(engine, refusal);
    }
    await sleep(PAUSE_MS, undefined, { signal: stop });
  }
}

/** What one connection tells, for as long as it holds. */
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

/** An event as it is written: the engine's have one line of data, and some an id alone. */
function eventIn(block: string): StreamEvent {
  const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
  const [id, data] = [fields.get("id"), fields.get("data")];
  return { ...(id !== undefined && { id }), event: fields.get("event") ?? "", data: data === undefined ? undefined : JSON.parse(data) };
}
