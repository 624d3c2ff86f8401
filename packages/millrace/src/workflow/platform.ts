import type { WorkflowStep } from "cloudflare:workers";
import { asCodeOf, pauseMs } from "../contract/crash-points.ts";
import { type Duration, durationMs } from "../contract/duration.ts";
import { codeOf } from "../contract/errors.ts";
import { markedTimeoutMs } from "../contract/read-mark.ts";
import { ownName } from "../contract/step-names.ts";
import type { PlatformStepName } from "../contract/told-error.ts";
import { doubtEventType, isInDoubt } from "../guard/doubt.ts";
import { resultOf, type StepOutcome } from "../guard/outcome.ts";
import { unpackOutput } from "../guard/output.ts";
import { checkedPolicy, type Policy } from "../guard/step.ts";
import { unheardOutcome } from "../guard/unheard.ts";
import { withinStep } from "../pass/advice.ts";
import type { Pass } from "../pass/pass.ts";
import type { StepCall } from "../pass/step-call.ts";
import { HELD } from "../signals/held.ts";
import { isAboutStep } from "../store/d1/trouble.ts";
import { BrokenOff } from "./broken-off.ts";
import { nextDelayMs } from "./delay.ts";
import { Holds } from "./holds.ts";
import { attemptInPass } from "./in-pass.ts";
import { StepAttempts } from "./step-attempts.ts";
import { endsStep, fromStepError } from "./step-error.ts";

/** A step as the platform is asked for it: the code's own, or one that the engine takes for one of those. */
type PlatformStep = Pick<StepCall, "label"> & Partial<StepCall>;

/** How often a read between steps may fail behind a step that could read the same. */
const MOST_ROUNDS = 10;

/** The steps of one pass as the platform takes them: each billed once, remembered once. Of a lean one the pass makes the first attempt. */
export class Platform {
  readonly #pass: Pass;
  readonly #steps: WorkflowStep;
  /** Its waits, and what a person holds. */
  readonly holds: Holds;
  /** Ends the replay when the platform rejects a call with its own error. */
  readonly brokenOff: BrokenOff;
  /** Attempts that are under way, and when the platform gives each up. */
  readonly #attempts = new Map<Promise<unknown>, number>();
  #code: "runs" | "returned" | "threw" | "over" = "runs";

  constructor(pass: Pass, steps: WorkflowStep) {
    this.#pass = pass;
    this.#steps = steps;
    this.brokenOff = new BrokenOff(pass);
    this.holds = new Holds(pass, this);
  }

  /**
   * One platform step: failures are noted for the operator, terminal ones end it, and its retries wait as long as the upstream asks. Behind
   * the end of the code none begins any more but those of a guarded step that it had begun, and the engine's own, `always`.
   */
  async do<T extends Rpc.Serializable<T>>(
    step: PlatformStep,
    policy: Policy,
    body: (attempt: number) => Promise<T>,
    begins: "in code" | "always" = "in code",
  ): Promise<T> {
    const behind = begins === "always";
    const { label: name, of: label = name, guarded = false, reads = false, commits = false } = step;
    const isOver = () => !behind && this.#code !== "runs" && !(this.#code === "returned" && guarded);
    if (isOver()) return never();
    const { failures } = this.#pass;
    const { retries, timeoutMs } = this.#checked(policy, label);
    const attempts = new StepAttempts(this.#pass, label, step.name, retries.limit, timeoutMs);
    const made = (attempt: number) =>
      attempts.make(attempt, () => {
        if (!guarded) this.#pass.course.noteAnew(label);
        const own = { instanceId: this.#pass.instanceId, step: label, class: commits ? "commit" : reads ? "read" : undefined };
        return this.#hold(
          timeoutMs,
          withinStep(() => asCodeOf(own, () => body(attempt))),
        );
      });
    const make = (attempt: number) =>
      made(attempt).catch(async (error) => {
        if (attempt <= retries.limit && !endsStep(error)) await this.#pass.keepCaught(step).catch(() => undefined);
        throw error;
      });
    const inPass = this.#goesLean(step) ? await attemptInPass(this.#pass.lean, name, () => make(1)) : undefined;
    if (inPass && "result" in inPass) return inPass.result;
    this.#noteStep();
    const begun = this.#steps.do(
      name,
      {
        retries: {
          limit: retries.limit,
          // The function says the whole pause: by itself the platform would double it at each attempt.
          backoff: "constant",
          delay: ({ ctx, error }) => nextDelayMs(retries, ctx.attempt, failures.lastOf(label) ?? error),
        },
        timeout: markedTimeoutMs(timeoutMs, reads),
      },
      async ({ attempt }) => (isOver() ? never<T>() : attempt === 1 && inPass ? inPass.attempt : make(attempt)),
    );
    const ended = begun.catch(async (told) => {
      if (!attempts.isOutcome(told)) return isOver() ? never<T>() : this.brokenOff.by(told, { type: "do", name });
      const anew = attempts.ran || (name !== label && !guarded) ? undefined : await this.#pass.inbox.anewAs(label, name);
      if (anew) return this.do({ ...step, label: anew, of: label }, policy, body, begins);
      if (!attempts.ran) this.#pass.inbox.noteReplay();
      const error = fromStepError(told);
      const isUnheard = attempts.noteGivenUp(error) || !attempts.ran || codeOf(failures.lastOf(label)) === "unavailable";
      const given = { step, hangs: attempts.ran, error: failures.lastOf(label) };
      const written = isUnheard && guarded ? await unheardOutcome(this.#pass, given) : undefined;
      if (written) return written as unknown as T;
      this.#pass.spending.noteFailed();
      throw error;
    });
    const result = await ended;
    if (!attempts.ran) this.#pass.inbox.noteReplay();
    return result as T;
  }

  /**
   * The workflow's code has returned: until every effect that it began has its outcome, or was given up. Nobody could retry it once the
   * run is complete, and an undo must find what happened. Throws what one of them failed of, if the code waited for no answer of it.
   */
  async whenDone(): Promise<void> {
    this.#code = "returned";
    await this.#pass.guarded.whenDone().finally(() => {
      this.#code = "over";
    });
  }

  /** The workflow's code has thrown: until no attempt is under way any more. None is made again before an operator retries. */
  async whenQuiet(): Promise<void> {
    this.#code = "threw";
    for (;;) {
      const leftMs = Math.max(0, ...this.#attempts.values()) - Date.now();
      if (leftMs <= 0) return;
      await Promise.race([Promise.allSettled(this.#attempts.keys()), scheduler.wait(leftMs)]);
    }
  }

  /** Follows the author's code, until the platform breaks the replay off or a step contradicts its record. */
  followed<T>(code: Promise<T>): Promise<T> {
    return Promise.race([code, this.brokenOff.error, this.#pass.astray]);
  }

  /** Whether the pass makes the first attempt at a step itself: where no pass before can have made one. */
  #goesLean({ lean, of }: PlatformStep): boolean {
    return lean === true && of === undefined && this.#pass.inbox.isAhead && this.#pass.lean.goesOn;
  }

  /** What a pass before has recorded of a step that it took itself. */
  async #kept(step: StepCall): Promise<StepOutcome | undefined> {
    const { inbox, instanceId } = this.#pass;
    const seen = step.guarded ? inbox.kept(step) : undefined;
    if (!seen) return undefined;
    inbox.noteReplay();
    return resultOf(instanceId, await this.reading(step, () => inbox.whole(seen)));
  }

  #noteStep(): void {
    this.#pass.spending.noteStep();
    this.#pass.lean.noteStep();
  }

  /** A sleep or a wait was rejected. Throws a time-out or a limit; anything else is the platform's own failure. */
  #unlessAboutStep(error: unknown, step: PlatformStepName): Promise<never> {
    if (isAboutStep(error)) return Promise.reject(error);
    const isAwaited = this.#code === "runs" || (this.#code === "returned" && step.type === "waitForEvent");
    return isAwaited ? this.brokenOff.by(error, step) : never();
  }

  /** A policy that the platform cannot take is that step's failure, and not one between steps. */
  #checked(policy: Policy, label: string): Required<Policy> & { timeoutMs: number } {
    try {
      return checkedPolicy(policy);
    } catch (error) {
      this.#pass.failures.noteEnd(label, error);
      throw error;
    }
  }

  #hold<T>(timeoutMs: number, attempt: Promise<T>): Promise<T> {
    this.#attempts.set(attempt, Date.now() + timeoutMs);
    const release = () => void this.#attempts.delete(attempt);
    attempt.then(release, release);
    return attempt;
  }

  /**
   * Reads what a pass needs between its steps. While all is well that costs nothing; when the database or R2 is out of reach, the read is
   * made again by a step of its own, with that step's patience, because what is thrown between steps ends the instance at once.
   */
  async reading<T>({ label, guarded = false }: PlatformStep, read: () => Promise<T>, begins: "in code" | "always" = "in code"): Promise<T> {
    for (let round = 1; ; round++) {
      try {
        return await read();
      } catch (error) {
        if (codeOf(error) !== "unavailable" || round > MOST_ROUNDS) throw error;
        const again = { label: ownName(label, "read_again", round), guarded };
        await this.do(again, PATIENT, async () => void (await read()), begins);
      }
    }
  }

  async sleep(step: StepCall, wantedMs: number): Promise<void> {
    const ms = pauseMs(wantedMs);
    if (this.#pass.inbox.wasOver(step.label)) return;
    await this.reading(step, () => this.#pass.keepCaught(step));
    await this.holds.unlessPaused(step, "asked");
    const since = Date.now();
    this.#noteStep();
    await this.#steps.sleep(step.label, ms).catch((error) => this.#unlessAboutStep(error, { type: "sleep", name: step.label }));
    this.#pass.inbox.noteWaited();
    const rest = Date.now() - since - ms / 2;
    if (rest < 0) this.#pass.inbox.noteReplay();
    else if (rest > SHORT_SLEEP_MS) this.#pass.course.noteAnew(step.label);
    await this.holds.unlessPaused(step, rest < 0 ? "heard" : "asked");
  }

  /** Waits for an event and answers its payload. Throws the platform's error when none comes in time. */
  async waitFor<T extends Rpc.Serializable<T>>(label: string, type: string, timeout: Duration): Promise<T> {
    this.#noteStep();
    const event = await this.#steps
      .waitForEvent<T>(label, { type, timeout: durationMs(timeout) })
      .catch((error) => this.#unlessAboutStep(error, { type: "waitForEvent", name: label }));
    this.#pass.inbox.noteWaited();
    return event.payload;
  }

  /**
   * A step from its first attempt to its output. One in doubt parks the instance here until an operator has answered, one of a paused run
   * until that is resumed; then it makes another attempt: as a step of its own, because the platform remembers the first. That one is
   * given the doubt (an entry's key).
   */
  async settle<Output>(
    step: StepCall,
    policy: Policy,
    attempt: (number: number, doubted?: string) => Promise<StepOutcome>,
  ): Promise<Output> {
    let doubted: string | undefined;
    const begin = async (number: number) => ((await this.#pass.run.wanted(number > 1)) === "goes on" ? attempt(number, doubted) : HELD);
    let outcome = (await this.#kept(step)) ?? (await this.do(step, policy, begin));
    for (let round = 1; "inDoubt" in outcome || "held" in outcome; round++) {
      const part = "held" in outcome ? "after_pause" : "after_doubt";
      if ("inDoubt" in outcome) {
        doubted = outcome.inDoubt;
        await this.#untilResolved(step, doubted, round);
      } else await this.holds.untilResumed(step, round);
      const after = { ...step, label: ownName(step.label, part, round), of: step.label };
      outcome = await this.do(after, policy, (number) => begin(number + 1));
    }
    const packed = outcome;
    if (step.guarded || "appRows" in packed) this.#pass.spending.noteOutcome(packed);
    return (await this.reading(step, () => unpackOutput(this.#pass.env.PAYLOADS, packed))) as Output;
  }

  async #untilResolved(step: StepCall, key: string, round: number): Promise<void> {
    // The platform remembers the doubt, and may have forgotten its answer: the database knows.
    if (!isInDoubt(await this.reading(step, () => this.#pass.inbox.entries(true)), key)) return;
    await this.reading(step, () => this.#pass.recorder.parked(this.#pass.instanceId));
    await this.waitFor(ownName(step.label, "in_doubt", round), doubtEventType(key), "365 days");
  }
}

/** Of a sleep that lasted no longer nobody can say whether it was slept now, or remembered slowly. */
const SHORT_SLEEP_MS = 500;

/** For five minutes, and soon again once what is read from is back: pauses that grow would outlast the trouble. */
const PATIENT: Policy = { retries: { limit: 30, delay: "10 seconds", backoff: "constant" } };

/** What is begun no more. */
function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}
