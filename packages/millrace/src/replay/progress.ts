import { beginning } from "../contract/text.ts";
import type { StepCall } from "./step-call.ts";

/** The progress of an attempt: numbers, a share, or only a text. */
export interface Progress {
  /** The finished part, in the unit that `text` names. */
  done?: number;
  /** The total, in the unit that `text` names. */
  of?: number;
  /** The finished share, from 0 to 1. Default: `done` divided by `of`. */
  share?: number;
  /** The unit of `done` and `of`, such as "pages". At most 200 characters. */
  text?: string;
}

const MAX_TEXT = 200;
/** Time between two stored reports of a step, in milliseconds. */
const EVERY_MS = 1000;

interface Reported {
  sentAt: number;
  /** The newest report, if it is not sent yet. */
  next?: string | undefined;
  timer?: ReturnType<typeof setTimeout> | undefined;
}

/**
 * The progress that the steps of a replay report. The first report of a step is sent at once. Later, the newest report is sent once a
 * second. All steps with the same name share this limit, so that a loop of short steps also writes one row per second. No step waits for a
 * report, and a report that fails does not fail its step.
 */
export class ProgressReports {
  readonly #steps = new Map<string, Reported>();

  /** `send` stores a report under the name of its step. */
  constructor(readonly send: (name: string, report: string) => Promise<void>) {}

  report({ name, label }: Pick<StepCall, "name" | "label">, attempt: number, given: Progress): void {
    const step = this.#steps.get(name) ?? { sentAt: 0 };
    this.#steps.set(name, step);
    step.next = JSON.stringify([label, attempt, ...valuesOf(given)]);
    const dueMs = step.sentAt + EVERY_MS - Date.now();
    if (dueMs <= 0) this.#send(name, step);
    else step.timer ??= setTimeout(() => this.#send(name, step), dueMs);
  }

  /** Sends the last reports. The method is called at the end of a run, because timers end with the run. */
  flush(): void {
    for (const [name, step] of this.#steps) this.#send(name, step);
  }

  #send(name: string, step: Reported): void {
    const { next } = step;
    clearTimeout(step.timer);
    Object.assign(step, { sentAt: Date.now(), next: undefined, timer: undefined });
    if (next !== undefined) this.send(name, next).catch(() => undefined);
  }
}

/** The values in their stored form. A value that is no valid number or text is stored as null. */
function valuesOf(given: Progress | null | undefined): (number | string | null)[] {
  const { done, of, share, text } = given ?? {};
  const [part, whole] = [numberOf(done), numberOf(of)];
  const shared = numberOf(share) ?? (part !== null && whole !== null && whole > 0 ? part / whole : null);
  const words = typeof text === "string" && text !== "" ? beginning(text, MAX_TEXT) : null;
  return [shared && Math.min(1, shared), part, whole, words];
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;
}
