import { type Acting, type Caught, caughtOf, leavesOpen } from "./caught.ts";
import { type Basis, type History, type Progress, packBefore, type Settlement } from "./history.ts";

/**
 * Where a step stands in the course of its pass: how much had settled when the code named it, and which entry already says how much of
 * that.
 */
export interface Start {
  readonly at: number;
  readonly basis: Told;
}

/** Code that does something between two steps besides going on may name a step so much later. */
export const NAMING_MS = 2000;

/** What is remembered answers sooner than this. */
const REMEMBERED_MS = 500;

interface Told {
  readonly by: Basis | null;
  readonly at: number;
}

/**
 * The order in which a pass begins steps and hears how they came out. Code that is the same on every pass goes the same way when it hears
 * the same in the same order. So it hears of one step at a time, and a later pass in the order of the first: a race has the same
 * winner, whoever is faster this time. What had settled before a step was begun is written down with the step, at no cost.
 */
export class Course implements Progress {
  readonly #begun = new Set<string>();
  readonly #underWay = new Set<string>();
  readonly #settled: Settlement[] = [];
  readonly #failed = new Map<string, boolean>();
  readonly #held: { settlement: Settlement; release: () => void }[] = [];
  /** What the entries that this pass has written build on. */
  readonly #bases = new Map<string, Basis | null>();
  #history: History | undefined;
  #expected: string[] = [];
  #basis: Told = { by: null, at: 0 };
  /** So much of what had settled is said by outcomes that are on record. */
  #saidUntil = 0;
  /** Failures of which later passes are told, though no outcome says them yet. */
  readonly #kept = new Map<string, Caught>();
  #telling = false;
  #over = false;
  /** How much the code had heard when it ended. */
  #heardAtEnd: number | undefined;
  /** Steps that this pass does itself: of an earlier one nobody remembers an outcome. */
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

  /** The step that the code heard of last, if it failed and the code has done nothing since. */
  get lastFailed(): string | undefined {
    const heard = this.#heardAtEnd ?? this.#settled.length;
    const last = this.#settled[heard - 1];
    return this.#doneSince(heard) === undefined ? last?.failure && last.label : undefined;
  }

  /**
   * True once the code has heard of something that no pass before can have told it, with nothing else under way: whatever it begins from
   * then on is begun for the first time.
   */
  get isBeyond(): boolean {
    return this.#beyond;
  }

  /** What a step put out is another pass's: that one has heard it as well, and may have come further. */
  noteOther(label: string): void {
    this.#beyond = false;
    this.#anew.delete(label);
  }

  /** Steps that the code has begun and not heard of. */
  get unheard(): readonly string[] {
    return [...this.#underWay];
  }

  /**
   * The code has ended, in a pass that may follow another. A branch that it left behind may have come further in the pass before: it is
   * told what is remembered, and nothing else, so that it begins again what it had begun there. Else an effect that happened, and that a
   * crash kept from being recorded, would be known to nobody.
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

  /** The code has ended: it begins nothing and hears of nothing any more. Whether a branch still comes so far would depend on time. */
  end(): void {
    this.#over = true;
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** This pass does a step of the code itself. */
  noteAnew(label: string): void {
    this.#anew.add(label);
  }

  /** With what errors steps failed that the code has heard of, in that order. */
  get failures(): Readonly<Record<string, Caught>> {
    const failed = this.#settled.flatMap(({ label, failure }, index): [string, Caught][] => {
      const wentOn = this.#doneSince(index + 1);
      const before = this.#kept.get(label) ?? this.#history?.failureOf(label);
      return failure ? [[label, { ...before, ...failure, ...(wentOn !== undefined && { wentOn }) }]] : [];
    });
    return Object.fromEntries(failed);
  }

  /** A guarded step that the code had begun, after it had heard of so many, makes an attempt. */
  noteAttempt(label: string, { at }: Start): void {
    this.noteAnew(label);
    if (this.#heardAtEnd === undefined) this.#attempted.set(label, at);
  }

  #doneSince(settled: number): string | undefined {
    return [...this.#attempted].find(([, at]) => at >= settled)?.[0];
  }

  /** What earlier passes wrote down, once that is known. */
  learn(history: History): void {
    this.#history = history;
    this.#expected = history.order.filter((label) => !this.#failed.has(label));
  }

  /** The code names a step. */
  begin(label: string): Start {
    const start = { at: this.#settled.length, basis: this.#basis };
    this.#begun.add(label);
    this.#underWay.add(label);
    const recorded = this.#history?.basisAt(label, this, start.at);
    if (recorded) this.noteRecorded(recorded, start);
    return start;
  }

  /** What had settled before a step was begun, as its entry keeps it: all of that where its basis leads back to the entry itself. */
  before(label: string, { at, basis }: Start): { after: string | null; caught: string | null } {
    const by = this.#leadsTo(label, basis.by) ? null : basis.by;
    this.#bases.set(label, by);
    return packBefore(by, this.#settled.slice(by === null ? 0 : basis.at, at));
  }

  /** An entry of the step is in the inbox: those behind it need not say again what it says. */
  noteRecorded({ label, generation }: Basis, { at }: Start): void {
    if (at >= this.#basis.at) this.#basis = { by: { label, generation }, at };
  }

  /** An outcome of the step is on record, as this pass wrote it: it says what had settled before. */
  noteOutcome({ at }: Start): void {
    this.#saidUntil = Math.max(this.#saidUntil, at);
  }

  /**
   * The failures that the code had heard before it named an effect, where later passes would not be told of one of them if this one ended
   * now; with those that they are told of already, as far as no outcome says them. Undefined where that is all.
   */
  unkept(label: string, start: Start): Record<string, Caught> | undefined {
    const kept = (failed: string) => (this.#kept.get(failed)?.wentOn === undefined ? undefined : this.#kept.get(failed));
    const unsaid = this.#unsaid(start, (failed) => this.#history?.keepsFailureOf(failed) === true);
    if (unsaid.every(([failed]) => kept(failed))) return undefined;
    // What had settled is said once, with the last of them: it may be as long as the run.
    const last = unsaid.findLast(([failed]) => !kept(failed))?.[0];
    const { after } = this.before(label, start);
    const went = (failed: string) => ({ wentOn: label, ...(failed === last && { after }) });
    return Object.fromEntries(unsaid.map(([failed, one]) => [failed, kept(failed) ?? { ...one, ...went(failed) }]));
  }

  /**
   * The same before what does nothing, as a sleep: of effects that may have happened although they failed. Whoever takes the run back
   * meanwhile has to know of them.
   */
  unkeptEffects(start: Pick<Start, "at">): Record<string, Caught> | undefined {
    const unsaid = this.#unsaid(start, (failed) => this.#history?.isTold(failed) === true).filter(([, one]) => leavesOpen(one));
    if (unsaid.every(([failed]) => this.#kept.has(failed))) return undefined;
    return Object.fromEntries(unsaid.map(([failed, one]) => [failed, this.#kept.get(failed) ?? one]));
  }

  /** The failures that the code had heard before it named a step, and that no outcome of this pass says, nor what `isKnown`. */
  #unsaid({ at }: Pick<Start, "at">, isKnown: (label: string) => boolean): [string, Caught][] {
    const since = this.#saidUntil;
    return this.#settled.slice(since).flatMap(({ label, failure }, index): [string, Caught][] => {
      const isDue = since + index < at || this.#kept.has(label);
      return failure && isDue && !isKnown(label) ? [[label, failure]] : [];
    });
  }

  /** Later passes are told these failures. */
  noteKept(failures: Readonly<Record<string, Caught>>): void {
    for (const [label, failure] of Object.entries(failures)) this.#kept.set(label, failure);
  }

  /** Lets the code hear how a step came out when it is its turn. */
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

  /** A recorded step that the code should have named by now. */
  missed(): string | undefined {
    return this.#history?.missedBy(this);
  }

  /** An entry that a later pass writes anew may build on others by now, which built on it. */
  #leadsTo(label: string, basis: Basis | null): boolean {
    const seen = new Set<string>();
    for (let one = basis; one && !seen.has(one.label); one = this.#bases.get(one.label) ?? this.#history?.baseOf(one) ?? null) {
      if (one.label === label) return true;
      seen.add(one.label);
    }
    return false;
  }

  #turnOf(settlement: Settlement): Promise<void> | undefined {
    if (this.#underWay.size === 1 && !this.#telling) {
      this.#tell(settlement);
      return undefined;
    }
    return new Promise((release) => {
      this.#held.push({ settlement, release });
      if (!this.#telling) void this.#tellInTurn();
    });
  }

  #tell(settlement: Settlement): void {
    this.#underWay.delete(settlement.label);
    this.#failed.set(settlement.label, settlement.failure !== undefined);
    this.#settled.push(settlement);
    this.#beyond ||= this.#underWay.size === 0 && this.#anew.has(settlement.label);
  }

  async #tellInTurn(): Promise<void> {
    this.#telling = true;
    for (;;) {
      // By then the code has named whatever it goes on with from what it heard last.
      await scheduler.wait(0);
      await this.#untilNamed();
      const [next] = this.#over ? [] : this.#held.splice(this.#nextHeld(), 1);
      if (!next) break;
      this.#tell(next.settlement);
      next.release();
    }
    this.#telling = false;
  }

  /** In an earlier pass the code named a step before it heard anything more: so it does now, however long its own work takes. */
  async #untilNamed(): Promise<void> {
    const startedAt = Date.now();
    for (let missed = this.missed(); missed !== undefined && !this.#unnamed.has(missed); missed = this.missed()) {
      if (Date.now() - startedAt > NAMING_MS) this.#unnamed.add(missed);
      else await scheduler.wait(20);
    }
  }

  /** Which of the held ones is next; behind the last while the one that was next in the pass before is still under way. */
  #nextHeld(): number {
    while (this.#expected[0] !== undefined && this.#failed.has(this.#expected[0])) this.#expected.shift();
    // One that the code has not named yet keeps its turn: the order may be put together from runs that named it sooner and later.
    const next = this.#expected.find((label) => this.#underWay.has(label));
    if (next === undefined) return 0;
    const index = this.#held.findIndex(({ settlement }) => settlement.label === next);
    return index >= 0 ? index : this.#held.length;
  }
}
