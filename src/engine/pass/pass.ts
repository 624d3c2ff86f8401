import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { attemptToken } from "../contract/ids.ts";
import { type RecorderClient, recorderOf } from "../recorder/client.ts";
import type { Attempt, Entry, RecordedClass, Seen } from "../store/inbox/entry.ts";
import { caughtOf, errorOf, leftBy } from "./caught.ts";
import { Course, NAMING_MS } from "./course.ts";
import type { Failure } from "./failure.ts";
import { Failures } from "./failures.ts";
import { isFirstPass } from "./fresh.ts";
import { History, labelOf } from "./history.ts";
import { assertNameable } from "./name.ts";
import { patiently } from "./patiently.ts";
import { type Place, stepsChanged } from "./step-call.ts";
import { WhichRun } from "./which-run.ts";

/** One pass of the platform through a workflow's code: from its start, or again after a crash, a sleep or a restart. */
export class Run {
  readonly recorder: RecorderClient;
  readonly which: WhichRun;
  readonly failures = new Failures();
  /** Guarded steps that the code has begun, until their outcome is there. */
  readonly guarded = new Set<Promise<unknown>>();
  /** Those for which the code waits, or has something wait: it hears of their failure. */
  readonly awaited = new Set<string>();
  /** The labels of the guarded steps that the code has begun. */
  readonly #effects = new Set<string>();
  /** Those that failed for good. */
  readonly failed = new Map<string, unknown>();
  /** Rejected when a step fails that had answered before, with something done behind that: the run fails of it, unheard by the code. */
  readonly astray = Promise.withResolvers<never>();
  readonly #course = new Course();
  /** With what its attempts' tokens begin, and those of no other pass. */
  readonly #pass = attemptToken().slice(0, 8);
  #recorded = 0;
  #replayed: boolean;
  /** True once the platform has remembered a step of an earlier pass of this run. */
  #recalls = false;
  #announced = false;
  #over = false;
  #history: History | undefined;
  #entries: Promise<Seen[]> | undefined;

  constructor(
    readonly env: EngineEnv,
    readonly workflow: string,
    readonly instanceId: string,
    readonly envelope: Envelope,
    /** When it was created for the first time; undefined when that may not be the first time. */
    createdAt: Date | undefined,
    /** The events that a route signals to waiting runs; undefined when no catalog has said. */
    readonly signalled?: ReadonlySet<string>,
    /** True for a pass that undoes. */
    readonly undoes = false,
  ) {
    this.recorder = recorderOf(env, instanceId);
    this.which = new WhichRun(this.recorder, instanceId);
    this.#replayed = !isFirstPass(instanceId, createdAt);
  }

  /**
   * The pass begins. One that may not be the first asks at once which run it belongs to, and waits for the answer when it needs it: if it
   * is paused, and wakes up when an operator has begun another run, it must not take itself for that.
   */
  begin(): void {
    if (this.#replayed) this.which.number().catch(() => undefined);
  }

  /** Refuses a pass that would do again what was taken back, because the platform makes it anew though no operator wants that. */
  async assertNotUndone(): Promise<void> {
    if (this.#replayed) await this.which.assertNotUndone();
  }

  /**
   * Takes the next place in the run. Errors: `nondeterministic_steps` when one call is made twice; `config_invalid` for a name that the
   * platform would refuse.
   */
  place(name: string, item: string, undoable = false): Place {
    const label = labelOf(name, item);
    assertNameable(name, label);
    if (this.#course.hasBegun(label)) {
      throw new MillraceError(
        "nondeterministic_steps",
        `The step "${label}" is called twice in one run. Give each call its own name, or a key that comes from its data: { key: item.id }.`,
        { step: label },
      );
    }
    return { name, item, label, start: this.#course.begin(label), undoable };
  }

  /**
   * Runs a step, and lets the code hear how it came out when it is its turn. In a pass that may not be the first, a step that had failed
   * and was caught fails again with the same error: what was recorded behind it is true only then. Before that error a pass that undoes
   * looks whether something came of the step all the same (`look`). Behind the end of the code nothing is begun any more.
   */
  async through<T>(place: Place, work: () => Promise<T>, look?: () => Promise<unknown>): Promise<T> {
    if (this.#over) return new Promise(() => undefined);
    const taken = this.#take(place, work, look);
    if (place.guarded) {
      this.guarded.add(taken);
      this.#effects.add(place.label);
    }
    const release = () => void this.guarded.delete(taken);
    taken.then(release, release);
    return this.#course.settle(place.label, taken);
  }

  async #take<T>(place: Place, work: () => Promise<T>, look?: () => Promise<unknown>): Promise<T> {
    await this.#knowHistory();
    const caught = this.#history?.failureOf(place.label);
    try {
      if (!caught) return await work();
      await look?.();
      const error = errorOf(caught);
      this.failures.noteEnd(place.label, error);
      throw error;
    } catch (error) {
      if (!caught && !this.undoes && this.#history?.isBuiltOn(place.label)) return this.#goAstray(error);
      if (place.guarded) this.failed.set(place.label, error);
      if (this.#history?.failsAgain(place.label, caughtOf(error)))
        await patiently(() => this.recorder.remember(this.instanceId, place.label));
      throw error;
    } finally {
      await this.#knowHistory();
    }
  }

  #goAstray(error: unknown): Promise<never> {
    this.astray.promise.catch(() => undefined);
    this.astray.reject(error);
    return new Promise(() => undefined);
  }

  /** Guarded steps that the code has begun, and waited for nowhere. */
  get floating(): readonly string[] {
    return [...this.#effects].filter((label) => !this.awaited.has(label));
  }

  /** True for a step of an earlier pass on which something builds that was done: what was slept once is not slept again. */
  wasOver(label: string): boolean {
    return this.#history?.wasOver(label) ?? false;
  }

  /** What a step is called that is tried anew though the platform remembers a failure of it: undefined where the code hears that one. */
  async anewAs(label: string, name: string): Promise<string | undefined> {
    const since = this.#history?.openSince(label);
    if (since === undefined || since > (await patiently(() => this.which.number()))) return undefined;
    const suffix = ` · run ${since}`;
    return name.endsWith(suffix) ? undefined : name + suffix;
  }

  /**
   * The workflow's code has ended. In a pass that follows another of the same run, branches that are still under way come as far as they
   * came there.
   */
  async catchUp(): Promise<void> {
    if (this.#recalls && !this.undoes) await this.#course.catchUp();
  }

  /** A step that records nothing (it reads, waits, sleeps) is done by this pass itself. */
  noteAnew(label: string): void {
    this.#course.noteAnew(label);
  }

  /** The workflow's code has ended. A branch that is still under way goes no further: whether it came so far would depend on time. */
  noteOver(): void {
    this.#over = true;
    this.#course.end();
  }

  /** The platform remembers a step: this pass follows another of the same run, and what was believed fresh is not. */
  noteReplay(): void {
    this.#recalls = true;
    this.#replayed = true;
  }

  /** Another pass records as well: what this one knew of the inbox is old. */
  noteOther(): void {
    this.#replayed = true;
    this.#entries = undefined;
  }

  /** Why the run ended with this error: see `Failures`. Where the code threw one of its own, also which failure it had just heard of. */
  reasonFor(error: unknown): Failure | undefined {
    const failure = this.failures.reasonFor(error, Object.keys(this.#course.failures));
    const behind = failure?.step === "" ? this.#course.lastFailed : undefined;
    return failure && { ...failure, ...(behind !== undefined && { behind }) };
  }

  /** What this pass leaves to later ones, as JSON. Null for one that undoes: its own failures say nothing of what there is to undo. */
  leftTo(next: number, failure: Failure | null): string | null {
    if (this.undoes) return null;
    const { failures, unheard } = this.#course;
    const isPast = (label: string) => this.wasOver(label) || (this.failed.has(label) && !this.awaited.has(label));
    return leftBy({ failures, unheard, isPast, before: this.#history?.left }, next, failure);
  }

  /** True when its row says that it runs: it has written since it began, and since it waited. */
  get isKnownToRun(): boolean {
    return this.#announced;
  }

  /** The instance waited: its next write says that it runs again. */
  noteWaited(): void {
    this.#announced = false;
  }

  /**
   * What the inbox already holds for a step that may have run before; undefined when it certainly has not, which costs
   * no round trip. One look per pass serves all its steps. Errors: `nondeterministic_steps`.
   */
  async earlier(place: Place, platformAttempt: number): Promise<Entry | undefined> {
    if (platformAttempt <= 1 && !this.#replayed && !this.#entries) return undefined;
    const entries = await this.entries(platformAttempt > 1);
    const { name, item, since = 1 } = place;
    const seen = entries.findLast((entry) => entry.step === name && entry.item === item && entry.generation >= since);
    if (!seen) await this.assertSameSteps(place);
    return seen && this.whole(seen);
  }

  /** An entry with its output, which is read only now that its step asks for it. */
  async whole(seen: Seen): Promise<Entry> {
    const { step, item, generation, state, output_ref } = seen;
    const mayHaveOne = (state === "done" || state === "confirmed" || state === "superseded") && output_ref === null;
    const { instanceId } = this;
    return { ...seen, output: mayHaveOne ? await this.recorder.output({ instanceId, step, item, generation }) : null };
  }

  /** Everything recorded for the instance but the outputs, newest generation last: looked up once in a pass, or anew. */
  entries(anew = false): Promise<Seen[]> {
    if (anew) this.#entries = undefined;
    this.#entries ??= this.recorder.history(this.instanceId).then(
      ({ entries, left }) => {
        this.#history = new History(entries, left === null ? {} : JSON.parse(left));
        this.#course.learn(this.#history);
        this.#recorded = entries.reduce((most, { position }) => Math.max(most, position + 1), this.#recorded);
        return entries;
      },
      (error) => {
        this.#entries = undefined;
        throw error;
      },
    );
    return this.#entries;
  }

  /**
   * Refuses a step that nobody recorded while one that was recorded should have been named before it: then the names depend on time or
   * chance, and the effect would happen once more under another name.
   */
  async assertSameSteps(place: Place): Promise<void> {
    await this.entries();
    const startedAt = Date.now();
    for (let missed = this.#course.missed(); missed !== undefined; missed = this.#course.missed()) {
      if (Date.now() - startedAt > NAMING_MS) throw stepsChanged(place, missed);
      await scheduler.wait(20);
    }
  }

  /** A new attempt at a step's effect, with a token of its own. */
  attempt(place: Place, effectClass: RecordedClass, generation = place.since ?? 1): Attempt {
    const { start, undoable = false } = place;
    if (start) this.#course.noteAttempt(place.label, start);
    return {
      key: { instanceId: this.instanceId, step: place.name, item: place.item, generation },
      position: this.nextPosition(place),
      class: effectClass,
      token: this.#pass + attemptToken(),
      epoch: 1,
      startsRun: !this.#announced,
      undoable,
      ...(start ? this.#course.before(place.label, start) : { after: null, caught: null }),
      aloneAs: this.#entries ? null : this.#pass,
    };
  }

  /** Grows with each outcome that is recorded: effects are taken back in the reverse order. */
  nextPosition({ position = this.#recorded++ }: Place): number {
    return position;
  }

  /** An entry of the step is in the inbox, and the instance was in this run then. */
  noteRecorded({ label, start }: Place, generation: number, number?: number): void {
    this.#announced = true;
    if (number !== undefined) this.which.note(number);
    if (start) this.#course.noteRecorded({ label, generation }, start);
  }

  /**
   * Asks patiently, because it is no step of the platform's that would be tried again: no run ends of a database that is away for minutes.
   */
  async #knowHistory(): Promise<void> {
    if (this.#history && this.#entries) return;
    if (this.#replayed) await patiently(() => this.entries());
  }
}
