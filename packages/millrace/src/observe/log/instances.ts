import type { Envelope } from "../../contract/envelope.ts";
import { codeOf, type ErrorCode, messageOf } from "../../contract/errors.ts";
import { type Hide, shownCode } from "../../contract/hide.ts";
import { type EntryKey, formatEntryKey } from "../../contract/ids.ts";
import { type LogLevel, logLine } from "../../contract/log-line.ts";
import { sayUnmeant } from "../../contract/settings.ts";
import { beginning, shortened } from "../../contract/text.ts";
import { framesOf } from "../../contract/told-error.ts";
import { spanIdOf, spanUnderWay, traceIdOf } from "../../contract/trace.ts";
import { wordsOf } from "../words.ts";

/** The fields of an instance in log lines, such as the tenant and the subject, without the payload. */
export interface LoggedInstance {
  instance_id: string;
  workflow: string;
  tenant_id: string;
  subject: string;
  correlation_id: string;
  idempotency_key?: string;
  message_type?: string;
  source?: string;
  trace_id?: string;
  span_id?: string;
}

/** One replay of a workflow's code. */
export interface LoggedRun {
  readonly env: object;
  readonly instanceId: string;
  readonly workflow: string;
  readonly envelope: Envelope;
  /** Redacts the payload's sensitive values in an error's text. */
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
  upstream_status?: number | undefined;
  hint?: string | undefined;
  answered?: object | undefined;
  /** The id that is equal for all failures with the same cause, for `GET /v1/instances?cause=`. */
  cause?: string | undefined;
}

/** An ended attempt at a step, and its duration. */
export interface LoggedAttempt {
  readonly step: string;
  readonly attempt: number;
  readonly ms: number;
}

/** The fields of a run in log lines. */
export function loggedInstance({ instanceId, workflow, envelope, hide }: LoggedRun): LoggedInstance {
  const { tenant_id, subject, correlation_id, idempotency_key, message_type, source, traceparent } = envelope;
  const short = (text: string) => shortened(hide(text), MAX_NAME_CHARACTERS);
  return {
    instance_id: instanceId,
    workflow,
    tenant_id,
    subject: short(subject),
    correlation_id: short(correlation_id),
    idempotency_key: short(idempotency_key),
    message_type,
    source: short(source),
    trace_id: traceIdOf(traceparent),
    span_id: spanIdOf(spanUnderWay()?.traceparent ?? traceparent),
  };
}

/** Logs a successful attempt at a step. */
export function logDone(run: LoggedRun, done: LoggedAttempt): void {
  logJobLine(run.env, "info", { log: "attempt", ...loggedInstance(run), ...done, outcome: "done" });
}

/** Logs a failed attempt at a step. An unclassified error is logged with its stack. */
export function logFailed(
  run: LoggedRun,
  failed: LoggedAttempt,
  failure: LoggedFailure,
  outcome: "retried" | "failed",
  error: unknown,
): void {
  const attempt = { log: "attempt", ...loggedInstance(run), ...failed, outcome, will_retry: outcome === "retried" };
  logJobLine(run.env, "warn", { ...attempt, ...described(run.env, failure), ...thrownAt(run, error) });
}

/**
 * Logs an attempt with an unknown outcome, with the effect's key by which an operator resolves the outcome. If `happened` is true, the
 * effect took place, but the database refused its rows.
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

/** A failure for log and traces, without the payload's sensitive values. */
export function withheldBy({ hide }: LoggedRun, failure: LoggedFailure): LoggedFailure {
  const { code, message, at, where } = failure;
  return { ...failure, code: shownCode(hide, code), message: hide(message), at: hide(at), where: hide(where) };
}

/** Logs the end of a run or an undo. `ms`: time since the start of the run. */
export function logEnd(env: object, instance: LoggedInstance, status: string, failure: LoggedFailure | null, ms?: number): void {
  const ended = { log: "ended", ...instance, status, ms };
  if (failure) {
    const { step, at, where, attempts, hint, cause } = failure;
    logJobLine(env, "error", { ...ended, step, at, where, attempts, ...described(env, failure), cause, hint });
  } else logJobLine(env, "info", ended);
}

/** An event or an answer for which a run waits. `open`: a caller with the event's scope can publish the event. */
export type LoggedWait =
  | { step: string; event_type: string; about: string; open: boolean; until: string }
  | { step: string; approval_id: string; until: string };

/** Logs that a run begins to wait. */
export function logWait(run: LoggedRun, wait: LoggedWait): void {
  const about = "about" in wait && { about: shortened(run.hide(wait.about), MAX_NAME_CHARACTERS) };
  logJobLine(run.env, "info", { log: "waiting", ...loggedInstance(run), ...wait, ...about });
}

function described(env: object, { code, message, upstream_status }: Pick<LoggedFailure, "code" | "message" | "upstream_status">): object {
  return { code, upstream_status, error: wordsOf(env, message, upstream_status) };
}

/** The stack of an error in the author's code, without its message, which the log line already contains. */
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

/** A log line about a job. */
interface JobLine {
  readonly log: string;
  readonly trace_id?: string | undefined;
  readonly [field: string]: unknown;
}

/** Maximum length of a name in a log line, in characters. */
export const MAX_NAME_CHARACTERS = 200;

/**
 * Writes a log line about a job. Above the rate limit, lines about successes are sampled by trace, and `sampled` is the number of lines
 * that each line represents. Lines about failures are always written.
 */
function logJobLine(env: object, level: LogLevel, line: JobLine): void {
  logSampled(env, level, line.trace_id, () => line);
}

/** Writes a sampled log line like `logJobLine`, but builds the line only if sampling selects it. */
export function logSampled(env: object, level: LogLevel, traceId: string | undefined, make: () => JobLine): void {
  const standsFor = level === "info" ? sampledAs(env, traceId) : 1;
  if (standsFor !== undefined) logLine(level, { ...make(), ...(standsFor > 1 && { sampled: standsFor }) });
}

interface SamplingEnv {
  readonly LOG_GOOD_PER_SECOND?: string | number;
}

/** Number of success lines per second up to which an isolate writes every success line. */
const GOOD_LINES_PER_SECOND = 50;

const WINDOW_MS = 1000;

/** The present second, with the number of this isolate's success lines in this second and in the second before. */
let window = { since: 0, offered: 0, before: 0 };

/**
 * Decides whether a success line is written. Returns undefined if not, otherwise the number of lines that the line represents. Up to the
 * rate (`LOG_GOOD_PER_SECOND`) each line represents only itself. Above the rate, one trace in 2, 4, 8 … has its lines written. The choice
 * depends on the trace's id, so every isolate writes or drops all lines of a job. A trace that is written at one in 8 is also written at
 * one in 4.
 */
export function sampledAs(env: SamplingEnv, traceId: string | undefined, now = Date.now()): number | undefined {
  const said = Number(env.LOG_GOOD_PER_SECOND ?? GOOD_LINES_PER_SECOND);
  if (!(said >= 0)) {
    const known = JSON.stringify(env.LOG_GOOD_PER_SECOND);
    sayUnmeant(env, `LOG_GOOD_PER_SECOND is ${known}: set a number, 0 or more. The default ${GOOD_LINES_PER_SECOND} applies.`);
  }
  const rate = said >= 0 ? said : GOOD_LINES_PER_SECOND;
  if (rate === 0) return undefined;
  const elapsed = now - window.since;
  if (elapsed >= WINDOW_MS || elapsed < 0) {
    const isNext = elapsed >= 0 && elapsed < 2 * WINDOW_MS;
    window = { since: now, offered: 0, before: isNext ? window.offered : 0 };
  }
  window.offered++;
  const excess = Math.max(window.offered, window.before) / rate;
  const oneIn = 2 ** Math.min(MOST_HALVINGS, Math.max(0, Math.ceil(Math.log2(excess))));
  // A line without a trace is sampled by its position within the second.
  return (traceId === undefined ? window.offered : placeOf(traceId)) % oneIn === 0 ? oneIn : undefined;
}

/** Maximum number of times that the share of written traces is halved, so that at least one trace in a million is written. */
const MOST_HALVINGS = 20;

/** A hash that distributes traces evenly for any kind of ids (FNV-1a with one more mixing step). */
function placeOf(traceId: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < traceId.length; index++) hash = Math.imul(hash ^ traceId.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
