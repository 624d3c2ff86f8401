import { duringSpan, type SpanUnderWay } from "../contract/trace.ts";
import { type LoggedFailure, type LoggedRun, logDone, logEnd, logFailed, loggedInstance, withheldBy } from "./log/instances.ts";
import { type AttemptOutcome, countAttempt, countEnd } from "./metrics/runs.ts";
import { spanOfAttempt, traceAttempt, traceEnd } from "./traces/instances.ts";

interface WatchedStep {
  readonly label: string;
  /** The step's name in the code; undefined for the engine's own steps. */
  readonly name: string | undefined;
}

/** One attempt at a step, from start to outcome. An attempt has one log line, one span and one count. */
export class WatchedAttempt {
  readonly #beganAt = Date.now();
  readonly #span: SpanUnderWay | undefined;
  #isTold = false;

  constructor(
    readonly run: LoggedRun,
    readonly step: WatchedStep,
    readonly attempt: number,
  ) {
    this.#span = spanOfAttempt(run);
  }

  /** Runs the attempt. The attempt's outgoing requests and messages are children of its span. */
  async make<T>(work: () => Promise<T>): Promise<T> {
    const result = await duringSpan(this.#span, work);
    // An unknown outcome is logged elsewhere, with the effect's key by which an operator resolves the outcome.
    if (isDoubt(result))
      this.#tell("in_doubt", { code: "in_doubt", message: "The outcome of its effect is unknown: an operator must confirm or reject it." });
    else {
      duringSpan(this.#span, () => logDone(this.run, this.#took()));
      this.#tell("done");
    }
    return result;
  }

  /**
   * Records a failure. An attempt that hung may fail a second time when it ends. Only the first failure is counted and exported as a span.
   */
  failed(failure: LoggedFailure, outcome: "retried" | "failed", error: unknown): void {
    const shown = withheldBy(this.run, failure);
    duringSpan(this.#span, () => logFailed(this.run, this.#took(), shown, outcome, error));
    this.#tell(outcome, shown);
  }

  #took() {
    return { step: this.step.label, attempt: this.attempt, ms: Date.now() - this.#beganAt };
  }

  #tell(outcome: AttemptOutcome, failure?: Pick<LoggedFailure, "code" | "message" | "upstream_status">): void {
    if (this.#isTold) return;
    this.#isTold = true;
    const { run, step, attempt } = this;
    const beganAt = this.#beganAt;
    countAttempt(run.env, { workflow: run.workflow, step: step.name, outcome, beganAt });
    if (this.#span) traceAttempt(this.#span, { run, step: step.label, attempt, beganAt, outcome, failure });
  }
}

function isDoubt(result: unknown): boolean {
  return typeof result === "object" && result !== null && "inDoubt" in result;
}

/** The replay that ends a run. */
interface EndedRun extends LoggedRun {
  /** The creation time of the instance; undefined if only the instance's message contains it. */
  readonly createdAt: Date | undefined;
  /** When the replay began, in milliseconds since 1970. */
  readonly beganAt: number;
}

/**
 * Records the end of a run: one log line, one count, and the span of the instance. Only this replay has recorded when a retry or undo
 * started.
 */
export function noteEnd(run: EndedRun, number: number, status: string, failure: LoggedFailure | null): void {
  const beganAt = number === 1 ? (run.createdAt?.getTime() ?? Date.parse(run.envelope.created_at)) : run.beganAt;
  const shown = failure && withheldBy(run, failure);
  logEnd(run.env, loggedInstance(run), status, shown, Date.now() - beganAt);
  countEnd(run.env, run.workflow, status, shown?.code);
  traceEnd({ run, number, status, beganAt, failure: shown });
}
