import { digest } from "../../contract/ids.ts";
import type { SpanUnderWay } from "../../contract/trace.ts";
import type { LoggedFailure, LoggedRun } from "../log/instances.ts";
import { wordsOf } from "../words.ts";
import { exportSpans } from "./exporter.ts";
import { isPlain, messageAttributes } from "./message.ts";
import { type Attributes, childOf, idsOf, isExported, KIND } from "./span.ts";

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
export function spanOfAttempt({ env, envelope }: LoggedRun): SpanUnderWay | undefined {
  return isExported(env, envelope.traceparent) ? { traceparent: childOf(envelope.traceparent), env } : undefined;
}

/** The span of an attempt at a step: a child of its instance's span. */
export function traceAttempt(span: SpanUnderWay, { run, step, attempt, beganAt, outcome, failure }: Attempted): void {
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
export function traceEnd({ run, number, status, beganAt, failure }: Ended): void {
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
