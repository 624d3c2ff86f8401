import type * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { assertDeclared } from "../contract/declared.ts";
import { type Envelope, tagsSchema } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Hide, hideNothing, hidingIn } from "../contract/hide.ts";
import { labelOf } from "../contract/step-names.ts";
import { beginning } from "../contract/text.ts";
import { Spending } from "../observe/cost/spending.ts";
import { type RecorderClient, recorderOf } from "../recorder/client.ts";
import { asRemembered, type Caught, errorOf, leftBy, packLeft } from "./caught.ts";
import { type Failure, Failures, withConfirmed } from "./failure.ts";
import { GuardedSteps } from "./guarded.ts";
import { Inbox } from "./inbox.ts";
import { InlineSteps } from "./inline.ts";
import { ProgressReports } from "./progress.ts";
import { RunState } from "./run-state.ts";
import { assertNameable, type StepCall } from "./step-call.ts";
import { StepOrder } from "./step-order.ts";

/**
 * After this number of steps a replay yields, so that timers and requests of its process run. In local development all runs use one
 * process, and a replay that does not yield would block the other runs.
 */
const STEPS_IN_A_ROW = 10;

interface ReplayOf {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly queue: string;
  readonly instanceId: string;
  readonly envelope: Envelope;
  /** The creation time of the instance; undefined for an instance that an earlier call may have created. */
  readonly createdAt: Date | undefined;
  readonly undoes: boolean;
  /** The version of the workflow that the replay executes. */
  readonly version: number;
}

/**
 * One replay, which is one execution of the workflow function by the platform. The platform begins another replay after a crash, a sleep or
 * a restart.
 */
export class Replay {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly queue: string;
  readonly instanceId: string;
  readonly envelope: Envelope;
  readonly undoes: boolean;
  readonly version: number;
  readonly createdAt: Date | undefined;
  readonly beganAt = Date.now();
  readonly recorder: RecorderClient;
  readonly run: RunState;
  readonly inbox: Inbox;
  readonly stepOrder = new StepOrder();
  readonly failures = new Failures();
  readonly guarded = new GuardedSteps();
  readonly inline = new InlineSteps();
  readonly spending = new Spending();
  readonly progress = new ProgressReports((name, report) => {
    this.inline.noteCall();
    this.spending.noteReport();
    return this.recorder.report(this.instanceId, name, report);
  });
  hide: Hide = hideNothing;
  /** Tags that the code added, and whether a record of this replay contains them. */
  readonly #tags = new Map<string, boolean>();
  readonly #astray = Promise.withResolvers<never>();
  #stopped = false;
  #taken = 0;
  #keeping: Promise<void> = Promise.resolve();

  constructor({ env, workflow, queue, instanceId, envelope, createdAt, undoes, version }: ReplayOf) {
    this.env = env;
    this.workflow = workflow;
    this.queue = queue;
    this.instanceId = instanceId;
    this.envelope = envelope;
    this.undoes = undoes;
    this.version = version;
    this.createdAt = createdAt;
    this.recorder = recorderOf(env, instanceId);
    this.run = new RunState(this.recorder, instanceId, undoes);
    this.inbox = new Inbox(instanceId, this.recorder, this.run, this.stepOrder, createdAt, version, undoes);
  }

  /**
   * Adds tags to the instance. The next record of this replay stores the tags that the instance does not have. An undo adds no tags.
   * Errors: `config_invalid` for an invalid tag, and for more than `MAX_TAGS` tags.
   */
  tag(tags: readonly string[]): void {
    if (this.undoes) return;
    const own = new Set(this.envelope.tags);
    const all = new Set([...own, ...this.#tags.keys(), ...tags]);
    const said = "An instance has at most 10 tags, each of 1 to 64 visible characters";
    assertDeclared(tagsSchema.safeParse([...all]).success, `${said}. It would have: ${beginning(JSON.stringify([...all]), 300)}.`, {});
    for (const tag of tags) if (!own.has(tag) && !this.#tags.has(tag)) this.#tags.set(tag, false);
  }

  /** The tags of this replay that no record of this replay contains. */
  get newTags(): string[] {
    return [...this.#tags].flatMap(([tag, isStored]) => (isStored ? [] : [tag]));
  }

  noteTagged(tags: readonly string[]): void {
    for (const tag of tags) this.#tags.set(tag, true);
    if (tags.length > 0) this.spending.noteTagged();
  }

  /** Stores new tags before a step without a record. */
  async storeTags(): Promise<void> {
    const tags = this.newTags;
    if (tags.length === 0) return;
    this.inline.noteCall();
    await this.recorder.tag(this.instanceId, tags);
    this.noteTagged(tags);
  }

  withhold(schema: z.core.$ZodType, payload: unknown): void {
    const [others, more] = [this.hide, hidingIn(schema, payload)];
    if (more !== hideNothing) this.hide = (value) => more(others(value));
  }

  /**
   * Refuses a replay that the platform restarted without an operator's decision, because such a replay would repeat an undone effect, or
   * undo a repeated effect. The run's number is read at once. An operator may begin another run while the replay is paused, and the replay
   * must not use the new number. `platformId` is the id of the replay on the platform.
   */
  async assertWanted(platformId: string): Promise<void> {
    if (this.undoes) return this.run.assertUndoes(platformId);
    if (this.inbox.mayFollow) await this.run.assertNotUndone();
  }

  /**
   * Creates the call of a step. Errors: `nondeterministic_steps` if the same call is made twice; `config_invalid` for a name that the
   * platform would refuse.
   */
  call(name: string, item: string, undoable = false): StepCall {
    const label = labelOf(name, item);
    assertNameable(name, label);
    if (this.stepOrder.hasBegun(label)) {
      throw new MillraceError(
        "nondeterministic_steps",
        `The step "${label}" is called twice in one run. Give each call its own name, or a key that comes from its data: { key: item.id }.`,
        { step: label },
      );
    }
    return { name, item, label, start: this.stepOrder.begin(label), undoable };
  }

  /**
   * Executes a step, and returns the result to the code in the order of the first replay. A failure that the code caught in an earlier
   * replay is thrown again, because later records depend on this failure. Before an undo throws such a failure, it calls `look` to find an
   * outcome of the step. After the end of the code no step begins.
   */
  async take<T>(step: StepCall, work: () => Promise<T>, look?: (failure: Error) => Promise<unknown>): Promise<T> {
    if (this.stepOrder.isOver) return new Promise(() => undefined);
    const outcome = this.#outcomeOf(step, work, look);
    if (step.guarded) this.guarded.begin(step, outcome);
    const heard = this.stepOrder.settle(step, outcome);
    if (step.acts) outcome.catch(() => (this.stepOrder.unheard.length > 1 ? this.#keepBeside(heard) : undefined));
    return heard;
  }

  async #outcomeOf<T>(step: StepCall, work: () => Promise<T>, look?: (failure: Error) => Promise<unknown>): Promise<T> {
    const { label } = step;
    if (++this.#taken % STEPS_IN_A_ROW === 0) await scheduler.wait(0);
    if (step.inline) await this.inbox.proveFirst();
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
      if (!caught && !this.undoes && history?.wasOver(label)) return this.#goAstray(error);
      if (step.guarded) this.guarded.noteFailed(label, error);
      throw asRemembered(error);
    } finally {
      await this.inbox.know();
    }
  }

  /**
   * True if an effect without a claim may begin; false if an operator has stopped or paused the run. The call first stores the failures
   * that the code caught, because later replays must receive the same failures to reach the effect again. The call writes only if a failure
   * is not recorded. The call reads only if the run's status was received more than `STATUS_VALID_MS` ago.
   */
  async mayBegin({ label, start }: StepCall): Promise<boolean> {
    await this.#keepInTurn(() => start && this.stepOrder.unkept(label, start, this.inbox.position));
    return (await this.run.decision()) === "continue";
  }

  /**
   * Stores caught failures before a step that may record no outcome for a long time: a sleep, wait, question, read, back-off or pause. An
   * operator may undo the run meanwhile, and the undo needs each failed effect that may have happened. The call writes only if a failure is
   * not recorded.
   */
  keepCaught({ start }: Pick<StepCall, "start">): Promise<void> {
    return this.#keepInTurn(() => start && this.stepOrder.unkeptEffects(start));
  }

  /**
   * Stores caught failures for the case that another branch of the code began a sleep, wait or similar step before this branch caught its
   * failure.
   */
  async #keepBeside(heard: Promise<unknown>): Promise<void> {
    await heard.catch(() => undefined);
    // If the code did not catch the failure, the code has ended after this turn of the event loop.
    await scheduler.wait(0);
    const all = { at: Number.POSITIVE_INFINITY };
    if (!this.stepOrder.isOver) await this.#keepInTurn(() => this.stepOrder.unkeptEffects(all)).catch(() => undefined);
  }

  /** Stores caught failures. Each write contains all failures, so a write begins only after the write before has ended. */
  #keepInTurn(unkept: () => Record<string, Caught> | undefined): Promise<void> {
    const kept = this.#keeping.then(() => this.#keep(this.undoes ? undefined : unkept()));
    this.#keeping = kept.catch(() => undefined);
    return kept;
  }

  async #keep(caught: Record<string, Caught> | undefined): Promise<void> {
    if (!caught) return;
    const askedAt = Date.now();
    const kept = { id: this.instanceId, run: await this.run.number(), left: packLeft(caught) };
    let standing = await this.recorder.keepCaught({ ...kept, ...this.inbox.reader });
    while (!standing && (await this.inbox.follow())) standing = await this.recorder.keepCaught({ ...kept, ...this.inbox.reader });
    // Without a newer record, another run has begun, and the status in the row says so.
    if (!standing) return void (await this.run.readDecision());
    this.run.note(standing, askedAt);
    this.stepOrder.noteKept(caught);
    this.spending.noteCaught();
  }

  #goAstray(error: unknown): Promise<never> {
    this.#astray.promise.catch(() => undefined);
    this.#astray.reject(error);
    return new Promise(() => undefined);
  }

  /** Ends a run that an operator has stopped. The run's code receives no more results, and attempts in progress are recorded. */
  stop(): Promise<never> {
    this.#stopped = true;
    return this.#goAstray(new MillraceError("not_retryable", "An operator has stopped the run: no further step starts."));
  }

  /** True for a replay that ended because an operator stopped its run. Such a replay reports no end. */
  get isStopped(): boolean {
    return this.#stopped;
  }

  /**
   * A promise that rejects if a step fails although the step had succeeded in an earlier replay and an effect followed it. Then the run
   * fails, and the code does not receive the error.
   */
  get astray(): Promise<never> {
    return this.#astray.promise;
  }

  /**
   * Lets branches in the background repeat their steps at the end of the workflow's code. In a replay that follows another replay of the
   * same run, the branches continue up to the step that they reached in the earlier replay.
   */
  async catchUp(): Promise<void> {
    if (this.inbox.followsAnother && !this.undoes) await this.stepOrder.catchUp();
  }

  /**
   * Refuses the end of the code if a deployment removed the call of a step whose effect may have happened. Otherwise the run would complete
   * with an unknown outcome. Errors: `nondeterministic_steps`.
   */
  async assertNoneInDoubt(): Promise<void> {
    await this.inbox.know();
    const left = this.stepOrder.missed(true);
    if (left === undefined) return;
    const said = `"${left}" may have happened, and the code ended without it. Deploy code with it, or resolve it, then retry.`;
    throw new MillraceError("nondeterministic_steps", said, { step: left });
  }

  /**
   * The failure that ended the run (see `Failures`). If the code threw a new error, the result also has the failure that the code had
   * received last.
   */
  reasonFor(error: unknown): Failure | undefined {
    const failure = this.failures.reasonFor(error, Object.keys(this.stepOrder.failures));
    const behind = failure?.step === "" ? this.stepOrder.lastFailed : undefined;
    const whole = failure && { ...failure, ...(behind !== undefined && { behind }) };
    if (!whole || this.undoes) return whole;
    const heard = this.stepOrder.failures[whole.step || (behind ?? "")];
    return withConfirmed({ ...whole, ...(heard && { effect: heard.effect ?? "none" }) }, this);
  }

  /**
   * The information that this replay stores for later replays, as JSON. Null for an undo, because the failures of an undo do not change
   * which effects are undone.
   */
  leftTo(next: number, failure: Failure | null): string | null {
    if (this.undoes) return null;
    const { failures, unheard } = this.stepOrder;
    const isPast = (label: string) => this.inbox.wasOver(label) || this.guarded.failedUnheard(label);
    const effectOf = (label: string) => this.guarded.effectOf(label, this.failures.lastOf(label));
    return leftBy({ failures, unheard, isPast, effectOf, before: this.inbox.history?.left }, next, failure);
  }
}
