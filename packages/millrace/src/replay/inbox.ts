import { MillraceError } from "../contract/errors.ts";
import { attemptToken } from "../contract/ids.ts";
import { ownName, ownStep } from "../contract/step-names.ts";
import { within } from "../contract/within.ts";
import type { RecorderClient } from "../recorder/client.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";
import type { Attempt, Entry, Seen } from "../store/inbox/entry.ts";
import { SKIPPED } from "../store/inbox/outcome.ts";
import type { Reader, Standing } from "../store/instances/run.ts";
import { leavesOpen } from "./caught.ts";
import { isFirstReplay } from "./fresh.ts";
import { History } from "./history.ts";
import { patiently, type RunState } from "./run-state.ts";
import type { StepCall } from "./step-call.ts";
import { NAMING_MS, type StepOrder } from "./step-order.ts";

/**
 * Timeout in milliseconds for the recorder's answer whether a replay is the first. After a longer wait, a read of the inbox would be
 * cheaper.
 */
const PROOF_MS = 1000;

/** The inbox records of an instance that a replay has read, and the changes of the replay itself. */
export class Inbox {
  /** Prefix of the tokens of this replay's attempts, which is unique for each replay. */
  readonly #replay = attemptToken().slice(0, 8);
  #given: string | undefined;
  #isFirst: boolean;
  #proof: Promise<boolean> | undefined;
  readonly #createdAt: Date | undefined;
  #positions = 0;
  /** The database's time at which this replay read the entries. */
  #readAt = 0;
  #knownToRun = false;
  #hasWaited = false;
  #followsAnother = false;
  #history: History | undefined;
  #seen: readonly Seen[] = [];
  #entries: Promise<Seen[]> | undefined;
  #lost: ReadonlySet<string> | undefined;
  readonly #overtaken = Promise.withResolvers<never>();

  constructor(
    readonly instanceId: string,
    readonly recorder: RecorderClient,
    readonly run: RunState,
    readonly stepOrder: StepOrder,
    createdAt: Date | undefined,
    readonly version = 1,
    readonly undoes = false,
  ) {
    this.#createdAt = createdAt;
    this.#isFirst = isFirstReplay(instanceId, createdAt);
    if (this.#isFirst) run.noteFirst();
  }

  /** A promise that rejects if another replay has recorded an effect after results in another order. Then this replay must end. */
  get overtaken(): Promise<never> {
    return this.#overtaken.promise;
  }

  /** True if no earlier replay can have reached the steps that the code begins from now on. */
  get isAhead(): boolean {
    return (this.#isFirst && this.#proof !== undefined) || this.stepOrder.isBeyond;
  }

  /**
   * Asks the recorder if this is the instance's first replay, before the replay executes an inline step. The replays of an instance in all
   * processes ask the same recorder. Without an answer, the replay counts as a replay that may follow another replay.
   */
  async proveFirst(): Promise<void> {
    if (!this.#isFirst) return;
    const created = this.#createdAt?.getTime() ?? 0;
    this.#proof ??= within(this.recorder.begin(this.instanceId, this.#replay, created), PROOF_MS).catch(() => false);
    if (!(await this.#proof)) this.#isFirst = false;
  }

  get mayFollow(): boolean {
    return !this.#isFirst;
  }

  /** True if the database was restored to a time before an earlier run. Then an effect without a record may have happened. */
  get isSetBack(): boolean {
    return this.#lost !== undefined;
  }

  /**
   * After a restore of the database, true for a step that a run may have begun before the restore, and for every inline step. The platform
   * has no record of inline steps.
   */
  mayBeLost({ label, inline = false }: StepCall): boolean {
    return this.#lost !== undefined && (inline || this.#lost.has(label));
  }

  /** True if the platform has returned a remembered step of an earlier replay of this run. */
  get followsAnother(): boolean {
    return this.#followsAnother;
  }

  get history(): History | undefined {
    return this.#history;
  }

  get seen(): readonly Seen[] {
    return this.#seen;
  }

  /** Records that the platform remembers a step, so this replay follows another replay of the same run. */
  noteReplay(): void {
    this.#followsAnother = true;
    this.#isFirst = false;
  }

  /**
   * Records that another replay has recorded a step which this replay attempted. The entries that this replay has read are therefore out of
   * date.
   */
  noteOther({ label }: StepCall): void {
    this.#isFirst = false;
    this.stepOrder.noteOther(label);
    this.#entries = undefined;
  }

  /**
   * All entries of the instance, without their outputs, newest generation last. The entries are read once per replay, and again if `anew`
   * is true.
   */
  entries(anew = false): Promise<Seen[]> {
    if (anew) this.#entries = undefined;
    this.#entries ??= this.recorder.history(this.instanceId).then(
      ({ entries, left, lost, readAt }) => {
        this.#lost = lost === null ? undefined : new Set(JSON.parse(lost));
        this.#history = new History(entries, left === null ? {} : JSON.parse(left));
        if (!this.undoes && this.stepOrder.isContradicted(this.#history, this.#seen, this.#replay)) return this.#overtake();
        this.#seen = entries;
        this.stepOrder.learn(this.#history);
        this.#positions = entries.reduce((most, { position }) => Math.max(most, position + 1), this.#positions);
        this.#readAt = readAt;
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
   * Reads the inbox if an earlier replay may have written entries. The read is retried for minutes, because the platform does not retry
   * code between steps.
   */
  async know(): Promise<void> {
    if (this.#history && this.#entries) return;
    if (!this.#isFirst) await patiently(() => this.entries());
  }

  /**
   * The entry of a step that may have run before; undefined without a round trip if the step has certainly not run. The replay reads the
   * inbox once for all steps. Errors: `nondeterministic_steps`.
   */
  async earlier(step: StepCall, platformAttempt: number): Promise<Entry | undefined> {
    if (platformAttempt <= 1 && this.#isFirst && !this.#entries) return undefined;
    const entries = await this.entries(platformAttempt > 1);
    const { name, item, since = 1 } = step;
    const seen = entries.findLast((entry) => entry.step === name && entry.item === item && entry.generation >= since);
    if (!seen) await this.assertSameSteps(step);
    else if (seen.state === "done" && !seen.token.startsWith(this.#replay)) this.stepOrder.noteOther(step.label);
    return seen && this.whole(seen);
  }

  /** The entry with the newest generation of a read step, if this replay has read the inbox. */
  async known({ name, item }: StepCall): Promise<Entry | undefined> {
    const entries = (await this.#entries) ?? [];
    const seen = entries.findLast((entry) => entry.step === name && entry.item === item);
    return seen && this.whole(seen);
  }

  /** The entry of an inline step that an earlier replay completed, because the platform has no record of inline steps. */
  kept({ name, item }: StepCall): Seen | undefined {
    const last = this.#seen.findLast((entry) => entry.step === name && entry.item === item);
    return last?.state === "done" && last.ended_at !== null && last.error === null ? last : undefined;
  }

  /** Returns an entry with its output. The output is read only when the step needs the output. */
  async whole(seen: Seen): Promise<Entry> {
    const { step, item, generation, state, output_ref, small } = seen;
    const mayHaveOne =
      (state === "done" || (state === "failed" && seen.token === SKIPPED) || state === "confirmed" || state === "superseded") &&
      output_ref === null;
    const { instanceId } = this;
    if (mayHaveOne && small !== null) return { ...seen, output: small || null };
    return { ...seen, output: mayHaveOne ? await this.recorder.output({ instanceId, step, item, generation }) : null };
  }

  /** True for a step that succeeded in an earlier replay and was followed by an effect, so that its sleep is not repeated. */
  wasOver(label: string): boolean {
    return this.#history?.wasOver(label) ?? false;
  }

  /** True for an effect that is attempted again, and that may have happened in an earlier run although it has no record. */
  mayRemain(label: string): boolean {
    const left = this.#history?.left[label];
    return left !== undefined && "open" in left && leavesOpen(left);
  }

  /**
   * The platform name for a step that is attempted again although the platform remembers its failure. The result is undefined if the code
   * receives the remembered failure instead.
   */
  async nextNameOf(label: string, name: string): Promise<string | undefined> {
    const since = this.#history?.openSince(label);
    if (since === undefined || since > (await patiently(() => this.run.number()))) return undefined;
    const own = ownStep({ type: "do", name });
    return own?.part === "run" && own.nth === since ? undefined : ownName(name, "run", since);
  }

  /**
   * Refuses a new step if the code should have called a recorded step before the new step. The name of such a step depends on time or
   * chance, so the effect would be repeated under a different name.
   */
  async assertSameSteps({ label }: StepCall): Promise<void> {
    await this.entries();
    const startedAt = Date.now();
    for (let missed = this.stepOrder.missed(); missed !== undefined; missed = this.stepOrder.missed()) {
      if (Date.now() - startedAt > NAMING_MS) throw stepsChanged(label, missed);
      await scheduler.wait(20);
    }
  }

  /** A new attempt at a step's effect, with a unique token. */
  attempt(step: StepCall, effectClass: RecordedClass, generation = step.since ?? 1): Attempt {
    const { start, undoable = false } = step;
    if (start) this.stepOrder.noteAttempt(step.label, start);
    return {
      key: { instanceId: this.instanceId, step: step.name, item: step.item, generation },
      class: effectClass,
      token: this.#replay + attemptToken(),
      epoch: 1,
      saysItRuns: !this.#knownToRun,
      version: this.version,
      begins: this.#isFirst && !this.#knownToRun && !this.#hasWaited,
      undoable,
      ...this.stamp(step),
    };
  }

  /** The place of the next record in the log. The position grows with each record, because effects are undone in reverse order. */
  stamp({ start, position }: StepCall): Pick<Attempt, "position" | "after" | "caught" | keyof Reader> {
    return {
      // An undo settles an effect at its earlier position, before entries that the log has already.
      ...(start ? this.stepOrder.before(start, position !== undefined) : { after: null, caught: null }),
      position: position ?? this.#positions++,
      ...this.reader,
    };
  }

  /** The author of a write, which is refused if another replay has written to the inbox since this replay's last read. */
  get reader(): Reader {
    return { replay: this.#replay, given: this.#given, readAt: this.undoes ? null : this.#readAt };
  }

  /** The position of the next record. */
  get position(): number {
    return this.#positions;
  }

  /**
   * Reads the inbox after a refused write, which is the outcome of `step` or another write. Returns false if no other replay has written
   * since the last read.
   */
  async follow(step?: StepCall): Promise<boolean> {
    const before = this.#readAt;
    this.#isFirst = false;
    const entries = await this.entries(true);
    if (step) await this.assertSameSteps(step);
    return !this.undoes && entries.some(({ updated_at, token }) => updated_at >= before && !token.startsWith(this.#replay));
  }

  /** Like `follow`, after a refused end. This replay ends if another replay has recorded a step that the code did not call. */
  async followEnd(): Promise<boolean> {
    const isBehind = await this.follow();
    return isBehind && this.stepOrder.uncalled !== undefined ? this.#overtake() : isBehind;
  }

  #overtake(): Promise<never> {
    this.#overtaken.promise.catch(() => undefined);
    this.#overtaken.reject(new Error("Another replay has recorded an effect after results in another order."));
    return new Promise(() => undefined);
  }

  noteEntry(standing: Standing | undefined, askedAt: number): void {
    this.#knownToRun = true;
    this.run.note(standing, askedAt);
  }

  noteOutcome({ start }: StepCall, token: string): void {
    if (!token.startsWith(this.#replay)) this.#given = token;
    if (start) this.stepOrder.noteOutcome(start);
  }

  /** True if the instance's row certainly has the status "running", because the replay has written to the database since its last wait. */
  get isKnownToRun(): boolean {
    return this.#knownToRun;
  }

  noteWaited(): void {
    this.#knownToRun = false;
    this.#hasWaited = true;
    this.run.noteWaited();
  }
}

function stepsChanged(label: string, recorded: string): MillraceError {
  return new MillraceError(
    "nondeterministic_steps",
    `An earlier replay of this instance recorded the step "${recorded}" where the code now calls "${label}". Step names must be the same in every replay: use literals, and put data into the key.`,
    { step: label },
  );
}
