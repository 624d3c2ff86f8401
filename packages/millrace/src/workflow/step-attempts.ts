import { isSimulatedDeath } from "../contract/crash-points.ts";
import { asUnclear, isDefiniteRefusal, MillraceError, messageOf, readable } from "../contract/errors.ts";
import { readTold } from "../contract/told-error.ts";
import { WatchedAttempt } from "../observe/attempts.ts";
import { asWrongStatement, describeFailure } from "../pass/failure.ts";
import type { Pass } from "../pass/pass.ts";
import { isAboutStep, isInfrastructure } from "../store/d1/trouble.ts";
import { asNamed, asStepError, endsStep } from "./step-error.ts";

/** An attempt begins, by its own clock, so much later than the platform's timer at most. */
const TIMER_MARGIN_MS = 1000;

/** So much of an attempt's text is looked for in what the platform says: it may put words around it, or cut a long one. */
const COMPARED_CHARACTERS = 200;

/** Why an attempt failed that the platform has given up, and another has followed: it heard nothing of that itself. */
const HUNG = new MillraceError(
  "step_timeout",
  "The attempt did not end within its timeout, although its signal was aborted: the platform started another attempt.",
);

/** The attempts that this pass makes at one platform step, and what they fail with. */
export class StepAttempts {
  #ran = false;
  /** The last attempt that has failed here. */
  #failed = 0;
  #underWay: { attempt: number; since: number; watched: WatchedAttempt } | undefined;
  /** What the last attempt threw, as the platform saw it; undefined while one is under way, and after one that succeeded. */
  #thrown: { readonly text: string; readonly isLast: boolean } | undefined;

  constructor(
    readonly pass: Pass,
    readonly label: string,
    /** Its name in the code; undefined for the engine's own. */
    readonly name: string | undefined,
    /** How often the platform tries again. */
    readonly limit: number,
    readonly timeoutMs: number,
  ) {}

  /** False for a step whose result the platform remembers. */
  get ran(): boolean {
    return this.#ran;
  }

  /** Makes an attempt. What it throws is noted, and thrown as the platform should see it. */
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
   * True when the platform's rejection says how the step ended: with what an attempt of ours threw, now or in an earlier replay, or with
   * a limit or the time-out of the platform. False when the platform failed itself: an engine that a deployment resets rejects every call
   * under way, and the step may have succeeded. An unknown text is the failure of the last attempt, where that failed in this pass: the
   * platform may change characters of it. Otherwise it is the failure of an earlier replay where there may have been one.
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
   * The platform gave the step up: in a pass before, which it remembers, or now. An attempt that it ended at its time-out hears nothing of
   * that; what it ends sooner it passes by again. Answers whether the last attempt hung.
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

  /** An attempt that hung, or that a pass or a run before had made, may have done what this one says was not done. */
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
