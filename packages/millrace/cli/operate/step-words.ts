import type { StepEvent } from "../../src/http/routes/streams.ts";
import { oneLine } from "../terminal.ts";
import type { Instance } from "./api.ts";
import { callOf } from "./arguments.ts";
import { lasting, moment } from "./words.ts";

export type StepProgress = Omit<NonNullable<Instance["progress"]>, "at">;

const [WIDEST, NARROWEST] = [20, 5];

/** One line: `copy pages  40 %  ████████░░░░░░░░░░░░  40 of 100 pages`. The bar is as wide as `columns` permits, or omitted. */
export function progressLine({ step, share, done, of, text }: StepProgress, columns = 80): string {
  const amount = [done, of].filter((one) => one !== null).join(" of ");
  const words = [step, share === null ? "" : `${Math.floor(share * 100)} %`, [amount, text].filter(Boolean).join(" ")].map(oneLine);
  const left = columns - 1 - words.reduce((sum, { length }) => sum + length + 2, 0);
  const wide = Math.min(left, WIDEST);
  const full = Math.floor((share ?? 0) * wide);
  const bar = share === null || wide < NARROWEST ? "" : "█".repeat(full) + "░".repeat(wide - full);
  return words.toSpliced(2, 0, bar).filter(Boolean).join("  ");
}

export class StepPrinter {
  readonly #began = new Map<string, number>();

  /**
   * The lines for new step events. The start of an attempt has no line if the end of the attempt is known. A failed step has no line if its
   * last attempt is printed.
   */
  lines(events: readonly StepEvent[]): string[] {
    return events.flatMap((event, at) => {
      const { type } = event;
      const name = nameOf(event);
      const isAttempt = (one: StepEvent) => one.type.startsWith("attempt_") && one.type !== "attempt_started" && nameOf(one) === name;
      const began = this.#began.get(name);
      if (type === "attempt_started") this.#began.set(name, Date.parse(event.at));
      else this.#began.delete(name);
      if (type === "attempt_started" && events.slice(at).some(isAttempt)) return [];
      if (type === "step_errored" && events.slice(0, at).some(isAttempt)) return [];
      // No line is printed here, because a second event for the wait itself contains the reason for the wait.
      if (event.state === "waiting") return [];
      const took = began === undefined ? undefined : lasting(Date.parse(event.at) - began);
      return [oneLine(`${clock(event.at)}  ${name}: ${whatHappened(event, took)}`)];
    });
  }
}

function nameOf({ step, count }: StepEvent): string {
  return count > 1 ? `${step} (${count})` : step;
}

const NOT_DONE = {
  in_doubt: "in doubt: unknown whether it happened",
  paused: "not started: its run is paused",
  stopped: "not started: its run was stopped",
  waiting: "waits",
} as const satisfies Record<NonNullable<StepEvent["state"]>, string>;

function whatHappened(event: StepEvent, took: string | undefined): string {
  const { type, attempt = 1, state, until, event_type, subject, approval_id } = event;
  const nth = attempt > 1 ? `attempt ${attempt}` : "";
  const ends = until ? `, until ${moment(until)}` : "";
  switch (type) {
    case "attempt_started":
      return nth || "begins";
    case "attempt_completed":
      if (state) return NOT_DONE[state];
      return `${nth === "" ? "done" : `done by ${nth}`}${took ? `, ${took}` : ""}`;
    case "attempt_errored":
      return failure(event, took);
    case "step_errored":
      return "failed, no further retry";
    case "sleep_started":
      return `sleeps${ends}`;
    case "sleep_completed":
      return "has slept";
    case "wait_started":
      if (approval_id) return `asks a person${ends}: ${callOf("approvals approve", approval_id, "--reason …")}, or reject`;
      if (event.child_id) return `waits for the child ${event.child_id}`;
      return event_type ? `waits for ${event_type} about ${subject}${ends}` : `waits for an operator${ends}`;
    case "wait_completed":
      return "goes on";
    case "wait_timed_out":
      return "timed out without an event";
    default:
      return type.replaceAll("_", " ");
  }
}

function failure({ attempt = 1, max_attempts: most, error, retry_delay_ms: delayMs }: StepEvent, took: string | undefined): string {
  const nth = `attempt ${attempt}${most ? ` of ${most}` : ""} failed${took ? ` after ${took}` : ""}`;
  const next = typeof delayMs === "number" ? `next attempt in ${lasting(delayMs)}` : "no further attempt";
  return `${nth}: ${error ? plain(error.message).replace(/\.$/, "") : "no message"}; ${next}`;
}

/** The message of an error that a step threw, without the text that the platform and the engine add. */
function plain(message: string): string {
  const [, thrown = message] = /^Step threw an? \w+ with message "(.*)"$/s.exec(message) ?? [];
  return thrown.replace(/^(?:\w*Error: )+/, "").replace(/ \(millrace: \w+\)$/, "");
}

function clock(time: string): string {
  return new Date(time).toTimeString().slice(0, 8);
}
