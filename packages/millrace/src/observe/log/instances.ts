import type { Envelope } from "../../contract/envelope.ts";
import { codeOf, type ErrorCode, messageOf } from "../../contract/errors.ts";
import { type Hide, shownCode } from "../../contract/hide.ts";
import { type EntryKey, formatEntryKey } from "../../contract/ids.ts";
import { framesOf } from "../../contract/stack.ts";
import { beginning, shortened } from "../../contract/text.ts";
import { spanIdOf, spanUnderWay, traceIdOf } from "../../contract/trace.ts";
import { wordsOf } from "../words.ts";
import { logJobLine, MAX_NAME_CHARACTERS } from "./line.ts";

/** An instance, as log lines name it: whose it is and what it is about. Never what it says. */
export interface LoggedInstance {
  instance_id: string;
  workflow: string;
  tenant_id: string;
  subject: string;
  correlation_id: string;
  idempotency_key?: string;
  message_type?: string;
  trace_id?: string;
  span_id?: string;
}

/** A pass through a workflow's code. */
export interface LoggedRun {
  readonly env: object;
  readonly instanceId: string;
  readonly workflow: string;
  readonly envelope: Envelope;
  /** Hides in the words of a failure what the payload withholds. */
  readonly hide: Hide;
}

/** Why a step, or a run, failed. */
export interface LoggedFailure {
  step: string;
  at?: string | undefined;
  where?: string | undefined;
  code: ErrorCode;
  message: string;
  attempts: number;
  upstreamStatus?: number | undefined;
  hint?: string | undefined;
  answered?: object | undefined;
  /** What the failure of a run has in common with others: `GET /v1/instances?cause=`. */
  cause?: string | undefined;
}

/** An attempt at a step that is over: which, and how long it took. */
export interface LoggedAttempt {
  readonly step: string;
  readonly attempt: number;
  readonly ms: number;
}

/** A run as log lines name it. */
export function loggedInstance({ instanceId, workflow, envelope, hide }: LoggedRun): LoggedInstance {
  const { tenant_id, subject, correlation_id, idempotency_key, message_type, traceparent } = envelope;
  const short = (text: string) => shortened(hide(text), MAX_NAME_CHARACTERS);
  return {
    instance_id: instanceId,
    workflow,
    tenant_id,
    subject: short(subject),
    correlation_id: short(correlation_id),
    idempotency_key: short(idempotency_key),
    message_type,
    trace_id: traceIdOf(traceparent),
    span_id: spanIdOf(spanUnderWay()?.traceparent ?? traceparent),
  };
}

/** One line for an attempt at a step that went well. */
export function logDone(run: LoggedRun, done: LoggedAttempt): void {
  logJobLine(run.env, "info", { log: "attempt", ...loggedInstance(run), ...done, outcome: "done" });
}

/** One line for each attempt at a step that failed. An error that nobody classified comes with where it was thrown. */
export function logFailed(
  run: LoggedRun,
  failed: LoggedAttempt,
  failure: LoggedFailure,
  outcome: "retried" | "failed",
  error: unknown,
): void {
  const attempt = { log: "attempt", ...loggedInstance(run), ...failed, outcome };
  logJobLine(run.env, "warn", { ...attempt, ...described(run.env, failure), ...thrownAt(run, error) });
}

/**
 * One line for an attempt that ended in doubt: a person has to say what became of the effect, by its key. `happened` where that is known,
 * and its rows were refused.
 */
export function logDoubt(run: LoggedRun, failure: LoggedFailure, effect: EntryKey, error: unknown): void {
  const { step, attempts: attempt } = failure;
  const happened = failure.answered === undefined ? {} : { happened: true };
  const doubt = { step, attempt, outcome: "in_doubt", effect: formatEntryKey(effect), ...happened };
  logJobLine(run.env, "error", {
    log: "attempt",
    ...loggedInstance(run),
    ...doubt,
    ...described(run.env, withheldBy(run, failure)),
    ...thrownAt(run, error),
  });
}

/** A failure as the log and traces may say it. */
export function withheldBy({ hide }: LoggedRun, failure: LoggedFailure): LoggedFailure {
  const { code, message, at, where } = failure;
  return { ...failure, code: shownCode(hide, code), message: hide(message), at: hide(at), where: hide(where) };
}

/** One line for each run that ended, or that an undo ended. `ms`: since it began. */
export function logEnd(env: object, instance: LoggedInstance, status: string, failure: LoggedFailure | null, ms?: number): void {
  const ended = { log: "ended", ...instance, status, ms };
  if (failure) {
    const { step, at, where, attempts, hint, cause } = failure;
    logJobLine(env, "error", { ...ended, step, at, where, attempts, ...described(env, failure), cause, hint });
  } else logJobLine(env, "info", ended);
}

/** What a run waits for: an event about a subject, which whoever has the scope may state where it is open; or a person's answer. */
export type LoggedWait =
  | { step: string; event_type: string; about: string; open: boolean; until: string }
  | { step: string; approval_id: string; until: string };

/** One line when a run begins to wait. */
export function logWait(run: LoggedRun, wait: LoggedWait): void {
  const about = "about" in wait && { about: shortened(run.hide(wait.about), MAX_NAME_CHARACTERS) };
  logJobLine(run.env, "info", { log: "waiting", ...loggedInstance(run), ...wait, ...about });
}

function described(env: object, { code, message, upstreamStatus }: Pick<LoggedFailure, "code" | "message" | "upstreamStatus">): object {
  return { code, upstream_status: upstreamStatus, error: wordsOf(env, message, upstreamStatus) };
}

/** Where an error of the author's own code was thrown, without its message, which the line has already. */
function thrownAt({ hide }: LoggedRun, error: unknown): { stack?: string | undefined } {
  return codeOf(error) === undefined ? { stack: hide(stackOf(error)) } : {};
}

function stackOf(error: unknown): string | undefined {
  try {
    if (!(error instanceof Error)) return undefined;
    return beginning(framesOf(error).slice(0, MAX_FRAMES).join("\n").trim(), 1000) || undefined;
  } catch {
    return `not readable: ${messageOf(error)}`.slice(0, 100);
  }
}

const MAX_FRAMES = 5;
