import { isSimulatedDeath } from "../contract/crash-points.ts";
import { asUnclear, isDefiniteRefusal, MillraceError, messageOf, readable } from "../contract/errors.ts";
import { WatchedAttempt } from "../observe/attempts.ts";
import { asMissing, describeFailure } from "../pass/failure.ts";
import type { Pass } from "../pass/pass.ts";
import { asNamed, asStepError, endsStep } from "./step-error.ts";

/** An attempt begins, by its own clock, so much later than the platform's timer at most. */
const TIMER_MARGIN_MS = 1000;

/** The local platform's word for a pass that it ends itself. */
const ABORTED = /^Aborting engine/;

export function isAborted(error: unknown): boolean {
  return ABORTED.test(messageOf(error));
}

/** Why an attempt failed that the platform has given up, and another has followed: it heard nothing of that itself. */
const HUNG = new MillraceError("step_timeout", "The attempt did not end in time, though its signal said so: the platform made another.");

/** The attempts that this pass makes at one platform step, and what they fail with. */
export class StepAttempts {
  #ran = false;
  /** The last attempt that has failed here. */
  #failed = 0;
  #underWay: { attempt: number; since: number; watched: WatchedAttempt } | undefined;

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
    if (attempt > 1) this.pass.lean.end(this.label);
    const hung = this.#underWay;
    if (hung) hung.watched.failed(describeFailure(this.label, hung.attempt, HUNG), "retried", HUNG);
    const watched = new WatchedAttempt(this.pass, this, attempt);
    const own = { attempt, since: Date.now(), watched };
    this.#underWay = own;
    try {
      return await watched.make(work);
    } catch (thrown) {
      const error = this.#besideEarlier(attempt, asNamed(asMissing(readable(thrown))));
      const told = asStepError(error);
      if (!isSimulatedDeath(error)) this.#note(watched, error, endsStep(told) || attempt > this.limit);
      throw told;
    } finally {
      if (this.#underWay === own) this.#underWay = undefined;
    }
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
