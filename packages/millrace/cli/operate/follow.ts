import { setTimeout as sleep } from "node:timers/promises";
import type { StepEvent } from "../../src/http/routes/streams.ts";
import { ApiRefusal, isGood, refusalOf } from "../api-client.ts";
import { type AskedEngine, orNotReached } from "../asked-engine.ts";
import { oneLine, say } from "../terminal.ts";
import type { Instance, InstanceDetail } from "./api.ts";
import { type Asked, callOf, type Verb } from "./arguments.ts";
import { nextLines, statusLine } from "./instance-words.ts";
import { idOf } from "./list.ts";
import { progressLine, StepPrinter, type StepProgress } from "./step-words.ts";
import { sayJson, shownJson, tell } from "./words.ts";

/** The exit code of `--wait` if the run ended without success or waits for an operator. */
export const EXIT_OTHER_STATUS = 3;

export const WAIT = {
  wait: { says: "print its steps until it ends or needs an operator, then its output; exit code 3 if it failed" },
};

async function* eventsOf({ api, stop }: Pick<Asked, "api" | "stop">, id: string): AsyncGenerator<StreamEvent[]> {
  for await (const events of streamEvents(api.engine, `/v1/instances/${encodeURIComponent(id)}/stream`, stop)) {
    yield events;
    if (events.some(({ event }) => event === "end")) return;
  }
}

/** Removes the current line of a terminal. Line wrap is off while a bar is written, so that a long bar is cut. */
const [CLEARED, UNWRAPPED, WRAPPED] = ["\r\u001b[K", "\u001b[?7l", "\u001b[?7h"];

/**
 * Shows the progress of a step as a bar on stderr, which `clear` removes before other lines are printed. If stderr is not a terminal, a
 * line is printed for each tenth of the progress.
 */
function progressBar() {
  const { stderr } = process;
  const isTerminal = stderr.isTTY && process.env.TERM !== "dumb";
  let [isShown, lastTenth] = [false, ""];
  return {
    clear() {
      if (isShown) stderr.write(CLEARED);
      isShown = false;
    },
    show(events: readonly StreamEvent[]): void {
      const progress = events.findLast(({ event }) => event === "progress")?.data as StepProgress | undefined;
      if (progress === undefined) return;
      const { step, attempt, share, text } = progress;
      const tenth = `${step} ${attempt} ${share === null ? text : Math.floor(share * 10)}`;
      // A pseudo terminal without a size has 0 columns.
      if (isTerminal) stderr.write(CLEARED + UNWRAPPED + progressLine(progress, stderr.columns || 80) + WRAPPED);
      else if (tenth !== lastTenth) tell(progressLine(progress));
      [isShown, lastTenth] = [isTerminal, tenth];
    },
  };
}

/** Prints the steps and the progress of an instance. Yields each of its statuses. */
async function* followed(asked: Asked, id: string, print: (line: string) => void): AsyncGenerator<Instance> {
  const printer = new StepPrinter();
  const bar = progressBar();
  try {
    for await (const events of eventsOf(asked, id)) {
      const lines = printer.lines(events.flatMap(({ event, data }) => (event === "step" ? [data as StepEvent] : [])));
      if (lines.length > 0) bar.clear();
      for (const line of lines) print(line);
      bar.show(events);
      const latest = events.findLast(({ event }) => event === "status" || event === "end")?.data as Instance | undefined;
      if (latest) yield latest;
    }
  } finally {
    bar.clear();
  }
}

/**
 * Prints the steps of an instance until it ends or needs an operator, then its status and output, and next commands. Returns the exit code:
 * 0 for the status `wanted`.
 */
export async function waitFor(asked: Asked, id: string, wanted: Instance["status"]): Promise<number> {
  try {
    for await (const latest of followed(asked, id, tell)) if (needsOperator(latest)) break;
  } catch (error) {
    if (asked.stop.aborted) tell(`\nIt continues. To see it: ${callOf("instances tail", id)}`);
    throw error;
  }
  const instance = await asked.api.get<InstanceDetail>(`/v1/instances/${encodeURIComponent(id)}`);
  tell(statusLine(instance));
  if (instance.result !== null) tell(`Result: ${oneLine(shownJson(instance.result))}`);
  for (const line of nextLines(instance)) tell(line);
  if (asked.isJson) sayJson(instance);
  return instance.status === wanted ? 0 : EXIT_OTHER_STATUS;
}

/** A question of an instance needs no answer while the instance is being undone. */
function needsOperator({ status, undo, held, waiting_for: waits }: Instance): boolean {
  return (
    status === "in_doubt" ||
    status === "paused" ||
    held !== null ||
    (undo === null && waits.some(({ approval_id }) => approval_id !== null))
  );
}

export const tail: Verb = {
  takes: "ID",
  does: "Follow the steps of an instance until it ends",
  async run(asked) {
    const id = await idOf(asked, "instances", asked.words[0]);
    if (asked.isJson) for await (const events of eventsOf(asked, id)) for (const event of events) sayJson(event);
    else {
      let last: Instance | undefined;
      for await (const latest of followed(asked, id, say)) last = latest;
      if (last) tell(statusLine(last));
    }
    return 0;
  },
};

interface StreamEvent {
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
async function* streamEvents(engine: AskedEngine, path: string, stop: AbortSignal): AsyncGenerator<StreamEvent[]> {
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
