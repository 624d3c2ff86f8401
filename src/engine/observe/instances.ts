import type { Envelope } from "../contract/envelope.ts";
import { codeOf, type ErrorCode, messageOf } from "../contract/errors.ts";
import { type EntryKey, formatEntryKey } from "../contract/ids.ts";
import { beginning, shortened } from "../contract/text.ts";
import { traceIdOf } from "../contract/trace.ts";

/** An instance, as log lines name it: whose it is and what it is about. Never what it says. */
export interface LoggedInstance {
  instance_id: string;
  workflow: string;
  tenant_id: string;
  subject: string;
  correlation_id: string;
  trace_id?: string;
}

/** A pass through a workflow's code. */
interface LoggedRun {
  readonly instanceId: string;
  readonly workflow: string;
  readonly envelope: Envelope;
}

/** Why a step, or a run, failed. */
interface Failure {
  step: string;
  at?: string | undefined;
  where?: string | undefined;
  code: ErrorCode;
  message: string;
  attempts: number;
  upstreamStatus?: number | undefined;
}

/** How a failed attempt goes on: the platform makes another, or the step has failed for good. */
type AttemptOutcome = "retried" | "failed";

const MAX_NAME_CHARACTERS = 200;

/** A run as log lines name it. */
export function loggedInstance({ instanceId, workflow, envelope }: LoggedRun): LoggedInstance {
  const { tenant_id, subject, correlation_id, traceparent } = envelope;
  const short = (text: string) => shortened(text, MAX_NAME_CHARACTERS);
  return {
    instance_id: instanceId,
    workflow,
    tenant_id,
    subject: short(subject),
    correlation_id: short(correlation_id),
    trace_id: traceIdOf(traceparent),
  };
}

/** One line for each attempt at a step that failed. An error that nobody classified comes with where it was thrown. */
export function logAttempt(run: LoggedRun, failure: Failure, outcome: AttemptOutcome, error: unknown): void {
  sayAttempt(run, failure, { outcome }, error);
}

/** One line for an attempt that ended in doubt: a person has to say what became of the effect, by its key. */
export function logDoubt(run: LoggedRun, failure: Failure, effect: EntryKey, error: unknown): void {
  sayAttempt(run, failure, { outcome: "in_doubt", effect: formatEntryKey(effect) }, error);
}

function sayAttempt(
  run: LoggedRun,
  { step, attempts, ...failure }: Failure,
  how: { outcome: string; effect?: string },
  error: unknown,
): void {
  const stack = codeOf(error) === undefined ? stackOf(error) : undefined;
  say("warn", { log: "attempt", ...loggedInstance(run), step, attempt: attempts, ...how, ...described(failure), ...(stack && { stack }) });
}

/** One line for each run that ended, or that an undo ended. */
export function logEnd(instance: LoggedInstance, status: string, failure: Failure | null): void {
  const ended = { log: "ended", ...instance, status };
  if (failure) {
    const { step, at, where, attempts } = failure;
    say("error", { ...ended, step, at, where, attempts, ...described(failure) });
  } else say("log", ended);
}

/** What a run waits for: an event about a subject, which whoever has the scope may state where it is open; or a person's answer. */
export type LoggedWait =
  | { step: string; event_type: string; about: string; open: boolean; until: string }
  | { step: string; approval_id: string; until: string };

/** One line when a run begins to wait. */
export function logWait(run: LoggedRun, wait: LoggedWait): void {
  const about = "about" in wait && { about: shortened(wait.about, MAX_NAME_CHARACTERS) };
  say("log", { log: "waiting", ...loggedInstance(run), ...wait, ...about });
}

function described({ code, message, upstreamStatus }: Pick<Failure, "code" | "message" | "upstreamStatus">): object {
  return { code, ...(upstreamStatus !== undefined && { upstream_status: upstreamStatus }), error: message };
}

/** Where an error of the author's own code was thrown, without its message, which the line has already. */
function stackOf(error: unknown): string | undefined {
  try {
    const lines = error instanceof Error ? (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line)) : [];
    return beginning(lines.slice(0, MAX_FRAMES).join("\n").trim(), 1000) || undefined;
  } catch {
    return `not readable: ${messageOf(error)}`.slice(0, 100);
  }
}

const MAX_FRAMES = 5;

function say(how: "log" | "warn" | "error", line: object): void {
  console[how](JSON.stringify(line));
}
