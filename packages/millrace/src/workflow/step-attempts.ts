import { NonRetryableError } from "cloudflare:workflows";
import { workflowBinding } from "../contract/bindings.ts";
import { isSimulatedDeath, pauseMs } from "../contract/crash-points.ts";
import { backoffMs, durationMs } from "../contract/duration.ts";
import {
  askedDelayMs,
  asUnclear,
  codeOf,
  isDefiniteRefusal,
  isTerminal,
  MillraceError,
  messageOf,
  NON_RETRYABLE,
  readable,
  saysTerminal,
  unclearOf,
} from "../contract/errors.ts";
import { framesOf, readTold, reportError } from "../contract/told-error.ts";
import type { Retries } from "../guard/step.ts";
import { WatchedAttempt } from "../observe/attempts.ts";
import { errorOf } from "../replay/caught.ts";
import { asWrongStatement, describeFailure } from "../replay/failure.ts";
import type { Replay } from "../replay/replay.ts";
import { isAboutStep, isInfrastructure } from "../store/d1/trouble.ts";

/** Largest difference between the attempt's clock and the platform's timer. */
const TIMER_MARGIN_MS = 1000;

/**
 * Number of characters of an attempt's error that are searched in the platform's error. The number is limited because the platform may add
 * a prefix, or truncate a long message.
 */
const COMPARED_CHARACTERS = 200;

/** The error that is recorded for an attempt that the platform abandoned and retried. Such an attempt itself receives no error. */
const HUNG = new MillraceError(
  "step_timeout",
  "The attempt did not end within its timeout, although its signal was aborted: the platform started another attempt.",
);

/** The attempts at one platform step in this replay, and the errors of these attempts. */
export class StepAttempts {
  #ran = false;
  #failed = 0;
  #underWay: { attempt: number; since: number; watched: WatchedAttempt } | undefined;
  /**
   * The last attempt's error, in the form in which the platform received the error. The value is undefined during an attempt, and after a
   * successful attempt.
   */
  #thrown: { readonly text: string; readonly isLast: boolean } | undefined;

  constructor(
    readonly replay: Replay,
    readonly label: string,
    /** The step's name in the code; undefined for a step of the engine. */
    readonly name: string | undefined,
    readonly limit: number,
    readonly timeoutMs: number,
  ) {}

  /** False if no attempt of the step ran in this replay, because the platform has stored the step's result. */
  get ran(): boolean {
    return this.#ran;
  }

  async make<T>(attempt: number, work: () => Promise<T>): Promise<T> {
    this.#ran = true;
    this.#thrown = undefined;
    if (attempt > 1) this.replay.inline.end(this.label);
    const hung = this.#underWay;
    if (hung) hung.watched.failed(describeFailure(this.label, hung.attempt, HUNG), "retried", HUNG);
    const watched = new WatchedAttempt(this.replay, this, attempt);
    const own = { attempt, since: Date.now(), watched };
    this.#underWay = own;
    try {
      return await watched.make(work);
    } catch (thrown) {
      const error = this.#besideEarlier(attempt, asNamed(asWrongStatement(readable(thrown))));
      const told = asStepError(error);
      const isDead = isSimulatedDeath(error);
      const isLast = !isDead && (endsStep(told) || attempt > this.limit);
      this.#thrown = { text: messageOf(told).slice(0, COMPARED_CHARACTERS), isLast };
      if (!isDead) this.#note(watched, error, isLast);
      throw told;
    } finally {
      if (this.#underWay === own) this.#underWay = undefined;
    }
  }

  /**
   * True when the platform's rejection of a step contains the step's outcome. Such a rejection is the error of an attempt in any replay, or
   * a limit or the timeout of the platform. False when the platform itself failed: a platform engine that a deployment resets rejects every
   * call in progress, even if the step has succeeded. The platform may change characters of an error's text. Therefore an unknown text is
   * the failure of the last attempt, if that attempt failed in this replay. Otherwise an unknown text is the failure of an earlier replay,
   * if an earlier replay is possible.
   */
  isOutcome(error: unknown): boolean {
    const text = messageOf(error);
    if (readTold(text)) return true;
    if (isInfrastructure(error)) return false;
    if (isAboutStep(error)) return true;
    const { inbox, stepOrder } = this.replay;
    if (!this.#ran) return inbox.mayFollow && !stepOrder.isBeyond;
    return this.#thrown !== undefined && (this.#thrown.isLast || text.includes(this.#thrown.text));
  }

  /**
   * Records that the platform stopped retrying the step, in this replay or in an earlier replay. An attempt that exceeds its timeout
   * receives no error from the platform. Returns true if the last attempt of the step hung.
   */
  noteGivenUp(error: unknown): boolean {
    const { attempt = 0, since = Date.now(), watched } = this.#underWay ?? {};
    const hung = attempt > this.limit && Date.now() - since >= this.timeoutMs - TIMER_MARGIN_MS;
    const { failures } = this.replay;
    if (hung && watched) this.#note(watched, new MillraceError("step_timeout", messageOf(error)), true);
    else if (!this.#ran) failures.note(this.label, this.limit + 1, error, true);
    failures.noteRejected(this.label, error);
    return hung;
  }

  /**
   * Marks the effect's outcome as unknown if an attempt reports that the effect did not happen but an earlier attempt may have caused it.
   * The earlier attempt may have hung, or may belong to another replay or run.
   */
  #besideEarlier(attempt: number, error: unknown): unknown {
    const { failures, inbox } = this.replay;
    const isCertain = attempt - 1 === this.#failed && isDefiniteRefusal(error) && !inbox.mayRemain(this.label);
    if (!isCertain) failures.noteUnclear(this.label);
    this.#failed = attempt;
    return failures.isUnclear(this.label) ? asUnclear(error) : error;
  }

  #note(watched: WatchedAttempt, error: unknown, last: boolean): void {
    const { attempt } = watched;
    this.replay.failures.note(this.label, attempt, error, last);
    watched.failed(describeFailure(this.label, attempt, error), last ? "failed" : "retried", error);
  }
}

/** True for an error that ends a step at once, without a retry (`asStepError`). The platform retries a step after any other error. */
export function endsStep(told: unknown): boolean {
  return told instanceof NonRetryableError;
}

export function asPlatformError(error: unknown): unknown {
  return isTerminal(error) && !(error instanceof NonRetryableError)
    ? new NonRetryableError(messageOf(error))
    : inWords(error, messageOf(error));
}

/**
 * Converts the error of a step to the error that the platform receives and stores. The message contains the code, because the platform
 * stores only the message and later replays need the code.
 */
function asStepError(error: unknown): unknown {
  // The platform itself could throw an error with the same message. The code in the message shows, in this replay and in later replays,
  // that an attempt threw the error.
  const code = codeOf(error) ?? (isInfrastructure(error) ? "step_failed" : undefined);
  if (code === undefined) return withoutCode(error);
  const text = reportError({ message: messageOf(error), code, isFinal: saysTerminal(error), unclear: unclearOf(error) });
  if (endsAtOnce(error)) return new NonRetryableError(text);
  return new Error(text.startsWith(NON_RETRYABLE) ? `Error: ${text}` : text);
}

function withoutCode(error: unknown): unknown {
  const said = messageOf(error);
  const text = readTold(said) ? `${said}.` : said;
  if (endsAtOnce(error)) return new NonRetryableError(text);
  if (text.startsWith(NON_RETRYABLE)) return new Error(`Error: ${text}`);
  return inWords(error, text);
}

function endsAtOnce(error: unknown): boolean {
  return isTerminal(error) || error instanceof NonRetryableError || isByName(error);
}

function inWords(error: unknown, message: string): unknown {
  if (!(error instanceof Error)) return new Error(message);
  return error.message === message ? error : errorOf({ name: error.name, message });
}

/** The platform recognizes a non-retryable error by its name, not its class. */
function isByName(error: unknown): boolean {
  return error instanceof Error && error.name === NON_RETRYABLE;
}

/**
 * Converts an error or a text that begins with `NonRetryableError`. The platform recognizes that prefix, and an error that passed through
 * RPC may keep only that prefix.
 */
function asNamed(error: unknown): unknown {
  if (!(error instanceof Error || typeof error === "string") || codeOf(error) !== undefined || isByName(error)) return error;
  const [begin, said] = /^NonRetryableError(?::\s*|$)(.*)$/s.exec(messageOf(error)) ?? [];
  if (begin === undefined || said === undefined) return error;
  const frames = error instanceof Error ? framesOf(error) : [];
  return Object.assign(new NonRetryableError(said), { stack: [begin, ...frames].join("\n") });
}

/** Restores a step's error with its code from the platform's error, so that all replays get the same error. */
export function fromStepError(error: unknown): unknown {
  const told = readTold(messageOf(error));
  if (!told) return error;
  const { code, message, isFinal, unclear } = told;
  return new MillraceError(code, message.replace(NAME, ""), {
    ...(isFinal && { terminal: true }),
    ...(unclear !== undefined && { unclear }),
  });
}

/** The platform may put the error's name before its message. */
const NAME = /^[A-Za-z]*Error: /;

/**
 * Returns the milliseconds before a step's next attempt: the longer of the policy's back-off and the wait that the error requests. A linear
 * or exponential back-off is at most 1 h. An error never shortens the back-off, because an upstream that requests 0 or 1 s each time would
 * use up all attempts within seconds.
 */
export function nextDelayMs(retries: Retries, attempt: number, error: unknown): number {
  return pauseMs(Math.max(Math.min(askedDelayMs(error) ?? 0, MAX_ASKED_MS), backOffMs(retries, attempt)));
}

/** Maximum wait that an error can request, because the platform ends a step whose delay is too long. */
const MAX_ASKED_MS = 12 * 3_600_000;

function backOffMs(retries: Retries, attempt: number): number {
  const delayMs = durationMs(retries.delay);
  switch (retries.backoff ?? "exponential") {
    case "constant":
      return delayMs;
    case "linear":
      return Math.min(delayMs * attempt, 3_600_000);
    case "exponential":
      return backoffMs(attempt, delayMs, 3_600_000);
  }
}

/**
 * The platform streams an instance's past events, and after that its new events. If no event arrives for this long, all past events have
 * been read.
 */
const WAIT_MS = { first: 1000, next: 50 };

export async function wasSlept({ env, workflow, instanceId }: Replay, label: string): Promise<boolean> {
  const instance = await workflowBinding(env, workflow).get(instanceId);
  const ended = await instance.subscribe({ filter: ["sleep_completed"] });
  try {
    for (let waitMs = WAIT_MS.first; ; waitMs = WAIT_MS.next) {
      const next = await Promise.race([ended.next().catch(() => undefined), scheduler.wait(waitMs)]);
      if (!next || next.done) return false;
      if ("stepName" in next.value && next.value.stepName.replace(/-\d+$/, "") === label) return true;
    }
  } finally {
    ended[Symbol.dispose]();
  }
}
