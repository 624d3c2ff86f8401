import type { Seen } from "../store/inbox/entry.ts";
import { type Acting, type Caught, caughtOf, leavesOpen } from "./caught.ts";
import { type History, type Progress, packBefore, type Settlement } from "./history.ts";

/** The position of a step in its replay: the number of steps that had settled when the code called the step. */
export interface Start {
  readonly at: number;
}

/** Maximum time between a step's result and the code's call of the next step, in milliseconds. */
export const NAMING_MS = 2000;

/** Time within which a result that the platform remembers arrives, in milliseconds. */
const REMEMBERED_MS = 500;

/**
 * The order in which a replay begins steps and receives their results. The same code takes the same path if it receives the same results in
 * the same order. Therefore the code receives one result at a time, in the order of the first replay. A race then has the same winner, even
 * if another step is faster in the later replay. The steps that had settled before a step are stored in the entry of that step, without a
 * separate write.
 */
export class StepOrder implements Progress {
  readonly #begun = new Set<string>();
  readonly #underWay = new Set<string>();
  readonly #settled: Settlement[] = [];
  readonly #failed = new Map<string, boolean>();
  readonly #held: { settlement: Settlement; release: () => void }[] = [];
  #history: History | undefined;
  #expected: string[] = [];
  /** The recorded log, as far as this replay knows it (see `History`). */
  #log: { readonly label: string; readonly failed: boolean }[] = [];
  /** Number of settled steps at the start of the log. */
  #inLog = 0;
  /** Failures stored for later replays, although no outcome contains them yet. */
  readonly #kept = new Map<string, Caught>();
  #isReleasing = false;
  #over = false;
  /** Number of results that the code had received when the code ended. */
  #heardAtEnd: number | undefined;
  /** Steps that this replay executes itself, because no earlier result exists. */
  readonly #anew = new Set<string>();
  readonly #unnamed = new Set<string>();
  readonly #attempted = new Map<string, number>();
  #beyond = false;

  hasBegun(label: string): boolean {
    return this.#begun.has(label);
  }

  hasSettled(label: string, failed: boolean): boolean {
    return this.#failed.get(label) === failed;
  }

  isSkipped(label: string): boolean {
    return this.#unnamed.has(label);
  }

  /** The step whose result the code received last, if this step failed and the code has called no step since. Otherwise undefined. */
  get lastFailed(): string | undefined {
    const heard = this.#heardAtEnd ?? this.#settled.length;
    const last = this.#settled[heard - 1];
    return this.#doneSince(heard) === undefined ? last?.failure && last.label : undefined;
  }

  /**
   * True after the code has received a result that no earlier replay can have received, while no other step was in progress. Then no
   * earlier replay can have called a later step.
   */
  get isBeyond(): boolean {
    return this.#beyond;
  }

  /**
   * Records that another replay produced the step's result. The other replay has also received the result and may have executed more steps.
   */
  noteOther(label: string): void {
    this.#beyond = false;
    this.#anew.delete(label);
  }

  /** Steps that the code has begun and that have no result yet. */
  get unheard(): readonly string[] {
    return [...this.#underWay];
  }

  /**
   * Lets branches in the background repeat their steps after the code has ended. In an earlier replay, a branch may have begun more steps.
   * In this replay, the branch receives only results that the platform remembers, so that the branch begins the same steps again. Without
   * this call, an effect that happened but was not recorded because of a crash would be lost.
   */
  async catchUp(): Promise<void> {
    this.#heardAtEnd = this.#settled.length;
    const isRemembered = (label: string) => !this.#anew.has(label);
    this.#held.splice(0, Number.POSITIVE_INFINITY, ...this.#held.filter(({ settlement }) => isRemembered(settlement.label)));
    const startedAt = Date.now();
    let [known, since] = [0, startedAt];
    while ([...this.#underWay].some(isRemembered) && Date.now() - since < REMEMBERED_MS && Date.now() - startedAt < NAMING_MS) {
      await scheduler.wait(10);
      const now = this.#begun.size + this.#settled.length;
      if (now !== known) [known, since] = [now, Date.now()];
    }
  }

  /**
   * Records that the code has ended. From now on the code begins no steps and receives no results, because otherwise the progress of a
   * branch would depend on timing.
   */
  end(): void {
    this.#over = true;
  }

  get isOver(): boolean {
    return this.#over;
  }

  noteAnew(label: string): void {
    this.#anew.add(label);
  }

  get failures(): Readonly<Record<string, Caught>> {
    const failed = this.#settled.flatMap(({ label, failure }, index): [string, Caught][] => {
      const wentOn = this.#doneSince(index + 1);
      const before = this.#kept.get(label) ?? this.#history?.failureOf(label);
      return failure ? [[label, { ...before, ...failure, ...(wentOn !== undefined && { wentOn }) }]] : [];
    });
    return Object.fromEntries(failed);
  }

  /** Records that a guarded step makes an attempt. `at`: the number of results that the code had received when the code began the step. */
  noteAttempt(label: string, { at }: Start): void {
    this.noteAnew(label);
    if (this.#heardAtEnd === undefined) this.#attempted.set(label, at);
  }

  /** The guarded step that this replay attempted last. */
  get lastAttempted(): string | undefined {
    return [...this.#attempted.keys()].at(-1);
  }

  #doneSince(settled: number): string | undefined {
    return [...this.#attempted].find(([, at]) => at >= settled)?.[0];
  }

  learn(history: History): void {
    this.#history = history;
    this.#expected = history.order.filter((label) => !this.#failed.has(label));
    this.#log = [...history.log];
    this.#inLog = 0;
    for (const [label, one] of Object.entries(history.left)) {
      if (!("open" in one) && history.failureOf(label)) this.#kept.set(label, one);
    }
  }

  begin(label: string): Start {
    this.#begun.add(label);
    this.#underWay.add(label);
    return { at: this.#settled.length };
  }

  /** The steps that had settled before a step began, for the entry of that step. With `isWhole` also the steps in the log. */
  before({ at }: Start, isWhole = false): { after: string | null; caught: string | null } {
    const from = isWhole ? 0 : Math.min(this.#knownInLog(), at);
    return packBefore(from, this.#settled.slice(from, at));
  }

  /** Records that this replay wrote an outcome of the step, together with the steps that had settled before the step began. */
  noteOutcome({ at }: Start): void {
    const known = this.#knownInLog();
    if (at <= known) return;
    this.#log.splice(
      known,
      this.#log.length,
      ...this.#settled.slice(known, at).map(({ label, failure }) => ({ label, failed: failure !== undefined })),
    );
  }

  /** Number of settled steps up to the first that differs from the log. */
  #knownInLog(): number {
    for (;;) {
      const [own, known] = [this.#settled[this.#inLog], this.#log[this.#inLog]];
      if (!own || own.label !== known?.label || (own.failure !== undefined) !== known.failed) return this.#inLog;
      this.#inLog++;
    }
  }

  /** True if another replay has recorded an effect after results in another order than this replay (see `History.contradicts`). */
  isContradicted(history: History, read: readonly Seen[], replay: string): boolean {
    return history.contradicts(this.#settled, read, replay);
  }

  /**
   * The failures that the code had received before the call of an effect, including stored failures that no outcome contains. The result is
   * undefined if later replays receive all these failures without a write, even after a crash.
   */
  unkept(label: string, start: Start, position: number): Record<string, Caught> | undefined {
    const kept = (failed: string) => (this.#kept.get(failed)?.wentOn === undefined ? undefined : this.#kept.get(failed));
    const unsaid = this.#unsaid(start);
    if (unsaid.every(([failed]) => kept(failed))) return undefined;
    // The settled steps are stored once, with the last failure, because the list may be as long as the run.
    const last = unsaid.findLast(([failed]) => !kept(failed))?.[0];
    const { after } = this.before(start);
    const went = (failed: string) => ({ wentOn: label, ...(failed === last && { after, position }) });
    return Object.fromEntries(unsaid.map(([failed, one]) => [failed, kept(failed) ?? { ...one, ...went(failed) }]));
  }

  /**
   * Like `unkept`, but for a step without an effect, such as a sleep. The result has only the failures of effects that may have happened.
   * An operator may undo the run meanwhile, and the undo needs these failures.
   */
  unkeptEffects(start: Start): Record<string, Caught> | undefined {
    const unsaid = this.#unsaid(start).filter(([, one]) => leavesOpen(one));
    if (unsaid.every(([failed]) => this.#kept.has(failed))) return undefined;
    return Object.fromEntries(unsaid.map(([failed, one]) => [failed, this.#kept.get(failed) ?? one]));
  }

  /** The failures that the code had received before the call of a step, without those in the log. */
  #unsaid({ at }: Start): [string, Caught][] {
    const since = this.#knownInLog();
    return this.#settled.slice(since).flatMap(({ label, failure }, index): [string, Caught][] => {
      return failure && (since + index < at || this.#kept.has(label)) ? [[label, failure]] : [];
    });
  }

  noteKept(failures: Readonly<Record<string, Caught>>): void {
    for (const [label, failure] of Object.entries(failures)) this.#kept.set(label, failure);
  }

  async settle<T>(step: Acting & { readonly label: string }, taken: Promise<T>): Promise<T> {
    const { label } = step;
    const [outcome] = await Promise.allSettled([taken]);
    const settlement = outcome.status === "fulfilled" ? { label } : { label, failure: caughtOf(outcome.reason, step) };
    const isUnheard = this.#heardAtEnd !== undefined && this.#anew.has(label);
    if (this.#over || isUnheard) return new Promise(() => undefined);
    await this.#turnOf(settlement);
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  }

  missed(inDoubt = false): string | undefined {
    return this.#history?.missedBy(this, inDoubt);
  }

  /** A step that the code has not called, although the code of another replay called it after the same results. */
  get uncalled(): string | undefined {
    return this.#history?.uncalledBy(this);
  }

  #turnOf(settlement: Settlement): Promise<void> | undefined {
    const { label } = settlement;
    const [next = label] = this.#expected;
    if (this.#underWay.size === 1 && !this.#isReleasing && next === label) {
      this.#release(settlement);
      return undefined;
    }
    return new Promise((release) => {
      this.#held.push({ settlement, release });
      if (!this.#isReleasing) void this.#releaseInOrder();
    });
  }

  #release(settlement: Settlement): void {
    this.#underWay.delete(settlement.label);
    this.#failed.set(settlement.label, settlement.failure !== undefined);
    this.#settled.push(settlement);
    while (this.#expected[0] !== undefined && this.#failed.has(this.#expected[0])) this.#expected.shift();
    this.#beyond ||= this.#underWay.size === 0 && this.#anew.has(settlement.label);
  }

  async #releaseInOrder(): Promise<void> {
    this.#isReleasing = true;
    for (;;) {
      // After this turn of the event loop, the code has called the steps that follow the last result.
      await scheduler.wait(0);
      await this.#untilNamed();
      const [next] = this.#over ? [] : this.#held.splice(this.#nextHeld(), 1);
      if (!next) break;
      this.#release(next.settlement);
      next.release();
    }
    this.#isReleasing = false;
  }

  /** Waits, for at most `NAMING_MS`, until the code calls the step that the code of the earlier replay called before the next result. */
  async #untilNamed(): Promise<void> {
    const startedAt = Date.now();
    for (let next = this.uncalled; next !== undefined; next = this.uncalled) {
      if (Date.now() - startedAt > NAMING_MS) this.#unnamed.add(next);
      else await scheduler.wait(20);
    }
  }

  /**
   * Index of the held result to release next. If the step whose result came next in the earlier replay is still in progress, the index is
   * after the last held result.
   */
  #nextHeld(): number {
    // A step that the code has not called yet keeps its position, because the order may combine runs that called the step at different
    // times.
    const next = this.#expected.find((label) => this.#underWay.has(label));
    if (next === undefined) return 0;
    const index = this.#held.findIndex(({ settlement }) => settlement.label === next);
    return index >= 0 ? index : this.#held.length;
  }
}
