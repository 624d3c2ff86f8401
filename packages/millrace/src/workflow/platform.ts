import type { WorkflowStep } from "cloudflare:workers";
import { asCodeOf, pauseMs } from "../contract/crash-points.ts";
import { type Duration, durationMs } from "../contract/duration.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { markedTimeoutMs, ownName } from "../contract/step-names.ts";
import { beginning } from "../contract/text.ts";
import { type PlatformStepName, reportBrokenOff } from "../contract/told-error.ts";
import { within } from "../contract/within.ts";
import { unheardOutcome } from "../guard/commit.ts";
import { doubtEventType, isInDoubt } from "../guard/doubt.ts";
import { resultOf, type StepOutcome, unpackOutput } from "../guard/output.ts";
import { checkedPolicy, type Policy } from "../guard/step.ts";
import { loggedInstance } from "../observe/log/instances.ts";
import { withinStep } from "../replay/advice.ts";
import { attemptInline } from "../replay/inline.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import { HELD } from "../signals/approval.ts";
import { query } from "../store/d1/retry.ts";
import { isAborted, isAboutStep } from "../store/d1/trouble.ts";
import { lookSoon } from "../store/instances/look.ts";
import { Holds } from "./holds.ts";
import { endsStep, fromStepError, nextDelayMs, StepAttempts } from "./step-attempts.ts";

/** A platform step: a step of the workflow's code, or a step that the engine adds for a step of the code. */
type PlatformStep = Pick<StepCall, "label"> & Partial<StepCall>;

const MOST_ROUNDS = 10;

/**
 * The platform steps of one replay. The platform bills and stores each platform step once. The replay itself makes the first attempt at an
 * inline step.
 */
export class Platform {
  readonly #replay: Replay;
  readonly #steps: WorkflowStep;
  readonly holds: Holds;
  readonly brokenOff: BrokenOff;
  readonly #attempts = new Map<Promise<unknown>, number>();
  #code: "runs" | "returned" | "threw" | "over" = "runs";

  constructor(replay: Replay, steps: WorkflowStep) {
    this.#replay = replay;
    this.#steps = steps;
    this.brokenOff = new BrokenOff(replay);
    replay.inbox.overtaken.catch((error) => this.brokenOff.by(error, { type: "do", name: replay.stepOrder.lastAttempted ?? "" }));
    this.holds = new Holds(replay, this);
  }

  /**
   * Runs one step of the workflow as a platform step. The step's failures are recorded for the operator, terminal errors end the step, and
   * retries wait as long as the upstream requests. After the workflow's code has ended, only these steps begin: the engine's own steps
   * (`always`), and guarded steps that the code started before its end.
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
    const { failures } = this.#replay;
    const { retries, timeoutMs } = this.#checked(policy, label);
    const attempts = new StepAttempts(this.#replay, label, step.name, retries.limit, timeoutMs);
    const made = (attempt: number) =>
      attempts.make(attempt, () => {
        if (!guarded) this.#replay.stepOrder.noteAnew(label);
        const own = { instanceId: this.#replay.instanceId, step: label, class: commits ? "commit" : reads ? "read" : undefined };
        return this.#hold(
          timeoutMs,
          withinStep(() => asCodeOf(own, () => body(attempt))),
        );
      });
    const make = (attempt: number) =>
      made(attempt).catch(async (error) => {
        if (attempt <= retries.limit && !endsStep(error)) await this.#replay.keepCaught(step).catch(() => undefined);
        throw error;
      });
    const endedInline = this.#goesInline(step) ? await attemptInline(this.#replay.inline, name, () => make(1)) : undefined;
    if (endedInline && "result" in endedInline) return endedInline.result;
    this.#noteStep();
    const begun = this.#steps.do(
      name,
      {
        retries: {
          limit: retries.limit,
          // The delay function returns the whole delay, because the platform would double any other delay at each attempt.
          backoff: "constant",
          delay: ({ ctx, error }) => nextDelayMs(retries, ctx.attempt, failures.lastOf(label) ?? error),
        },
        timeout: markedTimeoutMs(timeoutMs, reads),
      },
      async ({ attempt }) => (isOver() ? never<T>() : attempt === 1 && endedInline ? endedInline.attempt : make(attempt)),
    );
    const ended = begun.catch(async (told) => {
      if (!attempts.isOutcome(told)) return isOver() ? never<T>() : this.brokenOff.by(told, { type: "do", name });
      const anew = attempts.ran || (name !== label && !guarded) ? undefined : await this.#replay.inbox.nextNameOf(label, name);
      if (anew) return this.do({ ...step, label: anew, of: label }, policy, body, begins);
      if (!attempts.ran) this.#replay.inbox.noteReplay();
      const error = fromStepError(told);
      const isUnheard = attempts.noteGivenUp(error) || !attempts.ran || codeOf(failures.lastOf(label)) === "unavailable";
      const given = { step, hangs: attempts.ran, error: failures.lastOf(label) };
      const written = isUnheard && guarded ? await unheardOutcome(this.#replay, given) : undefined;
      if (written) return written as unknown as T;
      this.#replay.spending.noteFailed();
      throw error;
    });
    const result = await ended;
    if (!attempts.ran) this.#replay.inbox.noteReplay();
    return result as T;
  }

  /**
   * The engine calls this method when the workflow's code has returned. Waits until every effect of the run has an outcome or has no
   * further attempt. An operator cannot retry an effect of a complete run, and an undo must find each effect. The function throws the
   * failure of a step that the code did not await.
   */
  async whenDone(): Promise<void> {
    this.#code = "returned";
    await this.#replay.guarded.whenDone().finally(() => {
      this.#code = "over";
    });
  }

  /**
   * The engine calls this method when the workflow's code has thrown. Waits until no attempt of a step is in progress. New attempts of
   * steps require a retry by an operator.
   */
  async whenQuiet(): Promise<void> {
    this.#code = "threw";
    for (;;) {
      const leftMs = Math.max(0, ...this.#attempts.values()) - Date.now();
      if (leftMs <= 0) return;
      await Promise.race([Promise.allSettled(this.#attempts.keys()), scheduler.wait(leftMs)]);
    }
  }

  followed<T>(code: Promise<T>): Promise<T> {
    return Promise.race([code, this.brokenOff.error, this.#replay.astray]);
  }

  #goesInline({ inline, of }: PlatformStep): boolean {
    return inline === true && of === undefined && this.#replay.inbox.isAhead && this.#replay.inline.goesOn;
  }

  async #kept(step: StepCall): Promise<StepOutcome | undefined> {
    const { inbox, instanceId } = this.#replay;
    const seen = step.guarded ? inbox.kept(step) : undefined;
    if (!seen) return undefined;
    inbox.noteReplay();
    return resultOf(instanceId, await this.reading(step, () => inbox.whole(seen)));
  }

  #noteStep(): void {
    this.#replay.spending.noteStep();
    this.#replay.inline.noteStep();
  }

  /**
   * Handles the platform's rejection of a sleep or a wait. Throws the error if the error is a timeout or a limit. Any other error is the
   * platform's own failure.
   */
  #unlessAboutStep(error: unknown, step: PlatformStepName): Promise<never> {
    if (isAboutStep(error)) return Promise.reject(error);
    const isAwaited = this.#code === "runs" || (this.#code === "returned" && step.type === "waitForEvent");
    return isAwaited ? this.brokenOff.by(error, step) : never();
  }

  #checked(policy: Policy, label: string): Required<Policy> & { timeoutMs: number } {
    try {
      return checkedPolicy(policy);
    } catch (error) {
      this.#replay.failures.noteEnd(label, error);
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
   * Reads data between the steps of a replay. If D1 or R2 is unavailable, a platform step with long retries repeats the read, because an
   * error between steps would end the instance at once.
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
    if (this.#replay.inbox.wasOver(step.label)) return;
    await this.reading(step, () => this.#replay.keepCaught(step));
    await this.holds.unlessPaused(step, "asked");
    const since = Date.now();
    this.#noteStep();
    await this.#steps.sleep(step.label, ms).catch((error) => this.#unlessAboutStep(error, { type: "sleep", name: step.label }));
    this.#replay.inbox.noteWaited();
    const rest = Date.now() - since - ms / 2;
    if (rest < 0) this.#replay.inbox.noteReplay();
    else if (rest > SHORT_SLEEP_MS) this.#replay.stepOrder.noteAnew(step.label);
    await this.holds.unlessPaused(step, rest < 0 ? "heard" : "asked");
  }

  async waitFor<T extends Rpc.Serializable<T>>(label: string, type: string, timeout: Duration): Promise<T> {
    this.#noteStep();
    const event = await this.#steps
      .waitForEvent<T>(label, { type, timeout: durationMs(timeout) })
      .catch((error) => this.#unlessAboutStep(error, { type: "waitForEvent", name: label }));
    this.#replay.inbox.noteWaited();
    return event.payload;
  }

  /**
   * Executes a step until it has an output. A step with an unknown outcome waits until an operator has decided. A step of a paused run
   * waits until the run is resumed. The next attempt is a platform step with a new name, because the platform has stored the result of the
   * earlier platform step. This attempt gets the key of the entry with the unknown outcome.
   */
  async settle<Output>(
    step: StepCall,
    policy: Policy,
    attempt: (number: number, doubted?: string) => Promise<StepOutcome>,
  ): Promise<Output> {
    let doubted: string | undefined;
    const begin = async (number: number) =>
      (await this.#replay.run.decision(number > 1)) === "continue" ? attempt(number, doubted) : HELD;
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
    if (step.guarded && packed.reads) throw this.#wasRead(step);
    if (step.guarded || "appRows" in packed) this.#replay.spending.noteOutcome(packed);
    return (await this.reading(step, () => unpackOutput(this.#replay.env.PAYLOADS, packed))) as Output;
  }

  /** The error for an effect that was a read before a deployment. The platform returns the read's output, so the effect would not run. */
  #wasRead({ label }: StepCall): MillraceError {
    const said = `"${label}" was a read when it ran. Give the effect another name, deploy, then retry.`;
    const error = new MillraceError("nondeterministic_steps", said, { step: label, unclear: false });
    this.#replay.failures.noteEnd(label, error);
    return error;
  }

  async #untilResolved(step: StepCall, key: string, round: number): Promise<void> {
    // The platform stores the unknown outcome but may have lost the operator's decision, so the decision is read from the database.
    if (!isInDoubt(await this.reading(step, () => this.#replay.inbox.entries(true)), key)) return;
    await this.reading(step, () => this.#replay.recorder.parked(this.#replay.instanceId));
    await this.waitFor(ownName(step.label, "in_doubt", round), doubtEventType(key), "365 days");
  }
}

/** A sleep of at most this duration may be new. Alternatively, the sleep was completed before and its result loads slowly. */
const SHORT_SLEEP_MS = 500;

/** The policy of reads: retries for 5 minutes, at a constant interval so that the step continues soon after D1 or R2 is available. */
const PATIENT: Policy = { retries: { limit: 30, delay: "10 seconds", backoff: "constant" } };

function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}

/**
 * Time limit for the write that makes the keeper's next check due earlier. The limit is needed because the database may be unavailable too.
 */
const LOOK_LIMIT_MS = 2000;
const MAX_ERROR_CHARACTERS = 500;

/**
 * Ends a replay after an error of the platform itself. The workflow's code never receives this error, because a block such as `catch {
 * refund }` would compensate a step that did not fail. The end of the replay records no status, sends no callback and ends no turn in a
 * lane. The workflow's method `run` throws the error. A platform engine that was reset does not receive the error, and replays the run from
 * the steps that it has stored. A platform engine that still runs marks the instance as errored, and the keeper restarts the instance at
 * this step. A pending `run` would block the platform's engine, and the keeper could not distinguish the run from an active run.
 */
class BrokenOff {
  readonly #replay: Replay;
  readonly #rejected = Promise.withResolvers<never>();
  #isSo = false;

  constructor(replay: Replay) {
    this.#replay = replay;
    this.#rejected.promise.catch(() => undefined);
  }

  get error(): Promise<never> {
    return this.#rejected.promise;
  }

  get isSo(): boolean {
    return this.#isSo;
  }

  /**
   * Ends the replay after the platform rejects a call with an error of the platform. The returned promise never settles, so the workflow's
   * code does not continue.
   */
  by(error: unknown, step: PlatformStepName): Promise<never> {
    if (!this.#isSo) {
      this.#isSo = true;
      this.#replay.stepOrder.end();
      const said = beginning(messageOf(error), MAX_ERROR_CHARACTERS);
      logLine("warn", { log: "broken_off", ...loggedInstance(this.#replay), step: step.name, error: said });
      // If a platform engine aborts itself, it recognizes its own error and changes no status.
      this.#rejected.reject(isAborted(error) ? error : new Error(reportBrokenOff(said, step)));
    }
    return new Promise(() => undefined);
  }

  /**
   * Awaits a whole replay of the workflow's code. If the platform ends the replay, the function requests an early check of the run by the
   * keeper. Without an early check, the keeper may check a sleeping run only after a day.
   */
  async orThrow<T>(replay: Promise<T>): Promise<T> {
    try {
      return await Promise.race([replay, this.error]);
    } catch (error) {
      if (!this.#isSo) throw error;
      const { env, instanceId } = this.#replay;
      await within(query(env.DB, lookSoon(instanceId)), LOOK_LIMIT_MS).catch(() => undefined);
      return this.error;
    }
  }
}
