import { digest } from "../contract/ids.ts";
import { duringSpan, type SpanUnderWay } from "../contract/trace.ts";
import { type LoggedFailure, type LoggedRun, logDone, logEnd, logFailed, loggedInstance, withheldBy } from "./log/instances.ts";
import { type AttemptOutcome, countAttempt, countEnd } from "./metrics/runs.ts";
import { type Attributes, childOf, exportSpans, idsOf, isExported, KIND } from "./traces/exporter.ts";
import { isPlain, messageAttributes } from "./traces/message.ts";
import { wordsOf } from "./words.ts";

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

type Failed = Pick<LoggedFailure, "code" | "message" | "upstream_status">;

interface Attempted {
  readonly run: LoggedRun;
  readonly step: string;
  readonly attempt: number;
  readonly beganAt: number;
  readonly outcome: string;
  readonly failure: Failed | undefined;
}

interface Ended {
  readonly run: LoggedRun;
  /** The run's number, starting at 1. Each retry or undo begins another run. */
  readonly number: number;
  readonly status: string;
  readonly beganAt: number;
  readonly failure: Failed | null;
}

/** The span of an attempt that begins now; undefined if the attempt's trace is not exported. */
function spanOfAttempt({ env, envelope }: LoggedRun): SpanUnderWay | undefined {
  return isExported(env, envelope.traceparent) ? { traceparent: childOf(envelope.traceparent), env } : undefined;
}

/** The span of an attempt at a step: a child of its instance's span. */
function traceAttempt(span: SpanUnderWay, { run, step, attempt, beganAt, outcome, failure }: Attempted): void {
  const name = isPlain(run.env) ? step : step.replace(ITEM, "");
  exportSpans(span.env, {
    ...idsOf(span.traceparent, spanOfInstance(run)),
    ...{ name, kind: KIND.internal, startedAt: beganAt, endedAt: Date.now(), error: failure && said(run.env, failure) },
    attributes: {
      ...{ "millrace.step": name, "millrace.attempt": attempt, "millrace.outcome": outcome },
      ...named(run),
      ...why(failure),
    },
  });
}

/**
 * Exports the span of an ended instance, a child of the span that sent the instance's message. A later run has a separate child span,
 * because a span is exported once.
 */
function traceEnd({ run, number, status, beganAt, failure }: Ended): void {
  if (!isExported(run.env, run.envelope.traceparent)) return;
  const instance = spanOfInstance(run);
  const isFirst = number === 1;
  const own = isFirst ? instance : spanOfInstance(run, number);
  exportSpans(run.env, {
    ...idsOf(own, isFirst ? run.envelope.traceparent : instance),
    name: isFirst ? run.workflow : `${run.workflow} run ${number}`,
    ...{ kind: KIND.internal, startedAt: beganAt, endedAt: Date.now(), error: failure ? said(run.env, failure) : undefined },
    attributes: {
      "millrace.status": status,
      "millrace.run": number,
      ...named(run),
      ...messageAttributes(run.env, run.envelope, run.hide),
      ...why(failure),
    },
  });
}

/** The span of an instance. The span's id is derived from the instance's id, so that every replay and isolate computes the same id. */
function spanOfInstance({ instanceId, envelope }: LoggedRun, number = 1): string {
  return childOf(envelope.traceparent, digest("span", instanceId, envelope.traceparent, String(number)).slice(0, 16));
}

function named({ instanceId, workflow }: LoggedRun): Attributes {
  return { "millrace.workflow": workflow, "millrace.instance_id": instanceId };
}

function why(failure: Failed | null | undefined): Attributes {
  return { "error.type": failure?.code, "millrace.upstream_status": failure?.upstream_status };
}

/** The part of a step's label that names the step's item (`mail [ada]`, `mail [ada] · after doubt 1`), which may be any text. */
const ITEM = / \[.*\](?=$| · )/s;

/**
 * The status of a failed span: the error's code. The error's message may repeat a caller's text, so the message is added only with
 * `OTLP_NAMES=plain`.
 */
function said(env: object, { code, message, upstream_status }: Failed): string {
  if (!isPlain(env)) return code;
  return `${code}: ${wordsOf(env, message, upstream_status)}`.slice(0, 300);
}
