import type { StepEvent } from "../../src/http/routes/streams.ts";
import { oneLine, say } from "../terminal.ts";
import type { Instance, InstanceDetail } from "./api.ts";
import { type Asked, callOf, type Verb } from "./arguments.ts";
import { type StreamEvent, streamEvents } from "./events.ts";
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
