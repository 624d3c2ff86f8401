import { isSimulatedDeath } from "../contract/crash-points.ts";
import { asUnclear, isDefiniteRefusal, MillraceError, messageOf, readable } from "../contract/errors.ts";
import { readTold } from "../contract/told-error.ts";
import { WatchedAttempt } from "../observe/attempts.ts";
import { asWrongStatement, describeFailure } from "../pass/failure.ts";
import type { Pass } from "../pass/pass.ts";
import { isAboutStep, isInfrastructure } from "../store/d1/trouble.ts";
import { asNamed, asStepError, endsStep } from "./step-error.ts";

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
    readonly pass: Pass,
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
    if (attempt > 1) this.pass.lean.end(this.label);
    const hung = this.#underWay;
    if (hung) hung.watched.failed(describeFailure(this.label, hung.attempt, HUNG), "retried", HUNG);
    const watched = new WatchedAttempt(this.pass, this, attempt);
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
    const { inbox, course } = this.pass;
    if (!this.#ran) return inbox.mayFollow && !course.isBeyond;
    return this.#thrown !== undefined && (this.#thrown.isLast || text.includes(this.#thrown.text));
  }

  /**
   * Records that the platform stopped retrying the step, in this replay or in an earlier replay. An attempt that exceeds its timeout
   * receives no error from the platform. Returns true if the last attempt of the step hung.
   */
  noteGivenUp(error: unknown): boolean {
    const { attempt = 0, since = Date.now(), watched } = this.#underWay ?? {};
    const hung = attempt > this.limit && Date.now() - since >= this.timeoutMs - TIMER_MARGIN_MS;
    const { failures } = this.pass;
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
    const { failures, inbox } = this.pass;
    const isCertain = attempt - 1 === this.#failed && isDefiniteRefusal(error) && !inbox.mayStand(this.label);
    if (!isCertain) failures.noteUnclear(this.label);
    this.#failed = attempt;
    return failures.isUnclear(this.label) ? asUnclear(error) : error;
  }

  #note(watched: WatchedAttempt, error: unknown, last: boolean): void {
    const { attempt } = watched;
    this.pass.failures.note(this.label, attempt, error, last);
    watched.failed(describeFailure(this.label, attempt, error), last ? "failed" : "retried", error);
  }
}
