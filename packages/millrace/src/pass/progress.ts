import { beginning } from "../contract/text.ts";
import type { StepCall } from "./step-call.ts";

/** The progress of an attempt: numbers, a share, or a text alone. */
export interface Progress {
  /** The finished part, in the unit that `text` names. */
  done?: number;
  /** The whole, in the same unit. */
  of?: number;
  /** From 0 to 1. Default: `done` divided by `of`. */
  share?: number;
  /** What is counted, such as "pages". At most 200 characters. */
  text?: string;
}

const MAX_TEXT = 200;
/** Interval between two stored reports of a step. */
const EVERY_MS = 1000;

interface Reported {
  sentAt: number;
  /** The newest report that is not sent. */
  next?: string | undefined;
  timer?: ReturnType<typeof setTimeout> | undefined;
}

/**
 * The progress that the steps of a replay report. The first report of a step is sent at once, then the newest one once a second. Calls with
 * one name share this limit, so that a loop of short steps writes one row a second too. Nothing waits for a report, and none fails a step.
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

  /** Sends the last reports. Called at the end of a run, because no timer outlives it. */
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

/** The stored values. A value that is no such number or text is left out. */
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
