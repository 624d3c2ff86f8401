import type * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Hide, hideNothing, hidingIn } from "../contract/hide.ts";
import { labelOf } from "../contract/step-names.ts";
import { Spending } from "../observe/cost/spending.ts";
import { type RecorderClient, recorderOf } from "../recorder/client.ts";
import { asRemembered, type Caught, caughtOf, errorOf, leftBy, packLeft } from "./caught.ts";
import { withConfirmed } from "./confirmed-output.ts";
import { Course } from "./course.ts";
import type { Failure } from "./failure.ts";
import { Failures } from "./failures.ts";
import { GuardedSteps } from "./guarded.ts";
import { Inbox } from "./inbox.ts";
import { LeanSteps } from "./lean.ts";
import { assertNameable } from "./name.ts";
import { patiently } from "./patiently.ts";
import type { StepCall } from "./step-call.ts";
import { WhichRun } from "./which-run.ts";

/**
 * Behind so many steps a pass waits for a moment, so that timers and requests of its process have their turn: locally all runs in one, and
 * calls that follow one another leave them none.
 */
const STEPS_IN_A_ROW = 10;

/** Whose pass it is. */
interface PassOf {
  readonly env: EngineEnv;
  readonly workflow: string;
  /** What the message travelled on. */
  readonly queue: string;
  readonly instanceId: string;
  /** The message that started the instance. */
  readonly envelope: Envelope;
  /** When it was created for the first time; undefined when that may not be the first time. */
  readonly createdAt: Date | undefined;
  /** True for a pass that undoes. */
  readonly undoes: boolean;
}

/**
 * One pass of the platform through a workflow's code: from its start, or again after a crash, a sleep or a restart. What it knows is three
 * things: what is recorded of the instance, in which order the code begins steps and hears of them, and what failed.
 */
export class Pass {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly queue: string;
  readonly instanceId: string;
  readonly envelope: Envelope;
  readonly undoes: boolean;
  /** When the instance was created, where that is known, and when this pass began. */
  readonly createdAt: Date | undefined;
  readonly beganAt = Date.now();
  readonly recorder: RecorderClient;
  readonly run: WhichRun;
  readonly inbox: Inbox;
  readonly course = new Course();
  readonly failures = new Failures();
  readonly guarded = new GuardedSteps();
  readonly lean = new LeanSteps();
  readonly spending = new Spending();
  /** Hides in what is said of a failure what the messages that this pass has opened withhold. */
  hide: Hide = hideNothing;
  readonly #astray = Promise.withResolvers<never>();
  #stopped = false;
  #taken = 0;
  #keeping: Promise<void> = Promise.resolve();

  constructor({ env, workflow, queue, instanceId, envelope, createdAt, undoes }: PassOf) {
    this.env = env;
    this.workflow = workflow;
    this.queue = queue;
    this.instanceId = instanceId;
    this.envelope = envelope;
    this.undoes = undoes;
    this.createdAt = createdAt;
    this.recorder = recorderOf(env, instanceId);
    this.run = new WhichRun(this.recorder, instanceId, undoes);
    this.inbox = new Inbox(instanceId, this.recorder, this.run, this.course, createdAt);
  }

  /** A message was opened: what its schema marks is hidden from here on, beside what others withhold. */
  withhold(schema: z.core.$ZodType, payload: unknown): void {
    const [others, more] = [this.hide, hidingIn(schema, payload)];
    if (more !== hideNothing) this.hide = (value) => more(others(value));
  }

  /**
   * Refuses a pass that would do again what was taken back, or take back what was done again, because the platform makes it anew though no
   * operator wants that. It asks at once which run it belongs to: if it is paused, and wakes up when an operator has begun another run, it
   * must not take itself for that. `platformId` is its own id on the platform.
   */
  async assertWanted(platformId: string): Promise<void> {
    if (this.undoes) return this.run.assertUndoes(platformId);
    if (this.inbox.mayFollow) await this.run.assertNotUndone();
  }

  /**
   * The code calls a step. Errors: `nondeterministic_steps` when one call is made twice; `config_invalid` for a name that the platform would
   * refuse.
   */
  call(name: string, item: string, undoable = false): StepCall {
    const label = labelOf(name, item);
    assertNameable(name, label);
    if (this.course.hasBegun(label)) {
      throw new MillraceError(
        "nondeterministic_steps",
        `The step "${label}" is called twice in one run. Give each call its own name, or a key that comes from its data: { key: item.id }.`,
        { step: label },
      );
    }
    return { name, item, label, start: this.course.begin(label), undoable };
  }

  /**
   * Takes a step, and lets the code hear how it came out when it is its turn. In a pass that may not be the first, a step that had failed
   * and was caught fails again with the same error: what was recorded behind it is true only then. Before that error a pass that undoes
   * looks whether something came of the step all the same (`look`). Behind the end of the code nothing is begun any more.
   */
  async take<T>(step: StepCall, work: () => Promise<T>, look?: (failure: Error) => Promise<unknown>): Promise<T> {
    if (this.course.isOver) return new Promise(() => undefined);
    const outcome = this.#outcomeOf(step, work, look);
    if (step.guarded) this.guarded.begin(step.label, outcome);
    const heard = this.course.settle(step, outcome);
    if (step.acts) outcome.catch(() => (this.course.unheard.length > 1 ? this.#keepBeside(heard) : undefined));
    return heard;
  }

  async #outcomeOf<T>(step: StepCall, work: () => Promise<T>, look?: (failure: Error) => Promise<unknown>): Promise<T> {
    const { label } = step;
    if (++this.#taken % STEPS_IN_A_ROW === 0) await scheduler.wait(0);
    if (step.lean) await this.inbox.proveFirst();
    await this.inbox.know();
    const caught = this.inbox.history?.failureOf(label);
    try {
      if (!caught) return await work();
      const error = errorOf(caught);
      await look?.(error);
      this.failures.noteEnd(label, error);
      throw error;
    } catch (error) {
      const { history } = this.inbox;
      if (!caught && !this.undoes && history?.isBuiltOn(label)) return this.#goAstray(error);
      if (step.guarded) this.guarded.noteFailed(label, error);
      if (history?.failsAgain(label, caughtOf(error))) await patiently(() => this.recorder.remember(this.instanceId, label));
      throw asRemembered(error);
    } finally {
      await this.inbox.know();
    }
  }

  /**
   * Whether an effect may begin that writes nothing before it: not where a person has stopped the run, or holds it. What the code caught
   * and went on from is on record by then: whatever becomes of this pass, later ones hear of the same failures, and come by that effect
   * again. Costs a write only where nothing on record says one of them, and a look where nothing was heard of the run for a while.
   */
  async mayBegin({ label, start }: StepCall): Promise<boolean> {
    await this.#keepInTurn(() => start && this.course.unkept(label, start));
    return (await this.run.wanted()) === "goes on";
  }

  /**
   * Behind a caught failure comes what leaves no outcome for long: a sleep, a wait, a question, a read, a back-off, a pause. A person may
   * take the run back meanwhile, and must hear of an effect that may have happened although it failed. Costs a write only where nothing on
   * record says that.
   */
  keepCaught({ start }: Pick<StepCall, "start">): Promise<void> {
    return this.#keepInTurn(() => start && this.course.unkeptEffects(start));
  }

  /** The same where another branch may have begun such a thing before the code of this one has caught a failure, and does no more. */
  async #keepBeside(heard: Promise<unknown>): Promise<void> {
    await heard.catch(() => undefined);
    // By then a code that has not caught it has ended.
    await scheduler.wait(0);
    const all = { at: Number.POSITIVE_INFINITY };
    if (!this.course.isOver) await this.#keepInTurn(() => this.course.unkeptEffects(all)).catch(() => undefined);
  }

  /** Each write says all, so it comes behind the one before it. */
  #keepInTurn(unkept: () => Record<string, Caught> | undefined): Promise<void> {
    const kept = this.#keeping.then(() => this.#keep(this.undoes ? undefined : unkept()));
    this.#keeping = kept.catch(() => undefined);
    return kept;
  }

  async #keep(caught: Record<string, Caught> | undefined): Promise<void> {
    if (!caught) return;
    const askedAt = Date.now();
    this.run.note(await this.recorder.keepCaught(this.instanceId, packLeft(caught)), askedAt);
    this.course.noteKept(caught);
    this.spending.noteCaught();
  }

  #goAstray(error: unknown): Promise<never> {
    this.#astray.promise.catch(() => undefined);
    this.#astray.reject(error);
    return new Promise(() => undefined);
  }

  /** A person has stopped the run: its code hears nothing any more, and what is under way is recorded. */
  stop(): Promise<never> {
    this.#stopped = true;
    return this.#goAstray(new MillraceError("not_retryable", "An operator has stopped the run: no further step starts."));
  }

  /** True for a pass that ended because a person stopped its run: its end is nobody's news. */
  get isStopped(): boolean {
    return this.#stopped;
  }

  /** Rejected when a step fails that had answered before, with something done behind that: the run fails of it, unheard by the code. */
  get astray(): Promise<never> {
    return this.#astray.promise;
  }

  /**
   * The workflow's code has ended. In a pass that follows another of the same run, branches that are still under way come as far as they
   * came there.
   */
  async catchUp(): Promise<void> {
    if (this.inbox.followsAnother && !this.undoes) await this.course.catchUp();
  }

  /** Why the run ended with this error: see `Failures`. Where the code threw one of its own, also which failure it had just heard of. */
  reasonFor(error: unknown): Failure | undefined {
    const failure = this.failures.reasonFor(error, Object.keys(this.course.failures));
    const behind = failure?.step === "" ? this.course.lastFailed : undefined;
    const whole = failure && { ...failure, ...(behind !== undefined && { behind }) };
    if (!whole || this.undoes) return whole;
    const heard = this.course.failures[whole.step || (behind ?? "")];
    return withConfirmed({ ...whole, ...(heard && { effect: heard.effect ?? "none" }) }, this);
  }

  /** What this pass leaves to later ones, as JSON. Null for one that undoes: its own failures say nothing of what there is to undo. */
  leftTo(next: number, failure: Failure | null): string | null {
    if (this.undoes) return null;
    const { failures, unheard } = this.course;
    const isPast = (label: string) => this.inbox.wasOver(label) || this.guarded.failedUnheard(label);
    return leftBy({ failures, unheard, isPast, before: this.inbox.history?.left }, next, failure);
  }
}
