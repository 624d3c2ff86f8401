import { MillraceError } from "../contract/errors.ts";
import { attemptToken } from "../contract/ids.ts";
import { ownName, ownStep } from "../contract/step-names.ts";
import { within } from "../contract/within.ts";
import type { RecorderClient } from "../recorder/client.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";
import type { Attempt, Entry, Seen } from "../store/inbox/entry.ts";
import { SKIPPED } from "../store/inbox/outcome.ts";
import type { Standing } from "../store/instances/run.ts";
import { leavesOpen } from "./caught.ts";
import { type Course, NAMING_MS } from "./course.ts";
import { isFirstPass } from "./fresh.ts";
import { History } from "./history.ts";
import { patiently } from "./patiently.ts";
import type { StepCall } from "./step-call.ts";
import type { WhichRun } from "./which-run.ts";

/** Longest wait for the recorder's word on whether a pass is the first: a look into the inbox costs less then. */
const PROOF_MS = 1000;

/** What the inbox holds of an instance, as far as a pass has asked, and what the pass itself adds to that. */
export class Inbox {
  /** With what its attempts' tokens begin, and those of no other pass. */
  readonly #pass = attemptToken().slice(0, 8);
  /** True while nothing can be in the inbox that another pass has recorded. */
  #isFirst: boolean;
  #proof: Promise<boolean> | undefined;
  readonly #createdAt: Date | undefined;
  #positions = 0;
  #knownToRun = false;
  #hasWaited = false;
  #followsAnother = false;
  #history: History | undefined;
  #seen: readonly Seen[] = [];
  #entries: Promise<Seen[]> | undefined;
  #lost: ReadonlySet<string> | undefined;

  constructor(
    readonly instanceId: string,
    readonly recorder: RecorderClient,
    readonly run: WhichRun,
    readonly course: Course,
    createdAt: Date | undefined,
  ) {
    this.#createdAt = createdAt;
    this.#isFirst = isFirstPass(instanceId, createdAt);
  }

  /** True where whatever the code begins now is certainly begun for the first time: no pass before can have come so far. */
  get isAhead(): boolean {
    return (this.#isFirst && this.#proof !== undefined) || this.course.isBeyond;
  }

  /**
   * What this process takes for a first pass asks the recorder, which remembers those of all processes, before it takes a step itself.
   * Where that does not know, the pass may follow another.
   */
  async proveFirst(): Promise<void> {
    if (!this.#isFirst) return;
    const created = this.#createdAt?.getTime() ?? 0;
    this.#proof ??= within(this.recorder.begin(this.instanceId, this.#pass, created), PROOF_MS).catch(() => false);
    if (!(await this.#proof)) this.#isFirst = false;
  }

  /** False for a pass that certainly is the instance's first. */
  get mayFollow(): boolean {
    return !this.#isFirst;
  }

  /** True where the database was set back behind an earlier run: an effect without a record may have happened. */
  get isSetBack(): boolean {
    return this.#lost !== undefined;
  }

  /** True for a step that such a run had begun. Of a lean step nobody knows: it may have been. */
  mayBeLost({ label, lean = false }: StepCall): boolean {
    return this.#lost !== undefined && (lean || this.#lost.has(label));
  }

  /** True once the platform has remembered a step of an earlier pass of this run. */
  get followsAnother(): boolean {
    return this.#followsAnother;
  }

  /** What earlier passes wrote down about the order of things; undefined in a first pass, and before it was looked up. */
  get history(): History | undefined {
    return this.#history;
  }

  /** What the last look into the inbox has shown; none before one. */
  get seen(): readonly Seen[] {
    return this.#seen;
  }

  /** The platform remembers a step: this pass follows another of the same run. */
  noteReplay(): void {
    this.#followsAnother = true;
    this.#isFirst = false;
  }

  /** Another pass has recorded a step that this one has attempted: what it knew of the inbox is old. */
  noteOther({ label }: StepCall): void {
    this.#isFirst = false;
    this.course.noteOther(label);
    this.#entries = undefined;
  }

  /** Everything recorded for the instance but the outputs, newest generation last: looked up once in a pass, or anew. */
  entries(anew = false): Promise<Seen[]> {
    if (anew) this.#entries = undefined;
    this.#entries ??= this.recorder.history(this.instanceId).then(
      ({ entries, left, lost }) => {
        this.#seen = entries;
        this.#lost = lost === null ? undefined : new Set(JSON.parse(lost));
        this.#history = new History(entries, left === null ? {} : JSON.parse(left));
        this.course.learn(this.#history);
        this.#positions = entries.reduce((most, { position }) => Math.max(most, position + 1), this.#positions);
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
   * Looks into the inbox if an earlier pass may have written there. Asks patiently, because it is no step of the platform's that would be
   * tried again: no run ends of a database that is away for minutes.
   */
  async know(): Promise<void> {
    if (this.#history && this.#entries) return;
    if (!this.#isFirst) await patiently(() => this.entries());
  }

  /**
   * What the inbox already holds for a step that may have run before; undefined when it certainly has not, which costs
   * no round trip. One look per pass serves all its steps. Errors: `nondeterministic_steps`.
   */
  async earlier(step: StepCall, platformAttempt: number): Promise<Entry | undefined> {
    if (platformAttempt <= 1 && this.#isFirst && !this.#entries) return undefined;
    const entries = await this.entries(platformAttempt > 1);
    const { name, item, since = 1 } = step;
    const seen = entries.findLast((entry) => entry.step === name && entry.item === item && entry.generation >= since);
    if (!seen) await this.assertSameSteps(step);
    else if (seen.state === "done" && !seen.token.startsWith(this.#pass)) this.course.noteOther(step.label);
    return seen && this.whole(seen);
  }

  /** The newest entry of a step that only reads, as far as this pass has looked: a first one has none. */
  async known({ name, item }: StepCall): Promise<Entry | undefined> {
    const entries = (await this.#entries) ?? [];
    const seen = entries.findLast((entry) => entry.step === name && entry.item === item);
    return seen && this.whole(seen);
  }

  /** The entry of a step that a pass before has taken itself, and that came out well: the platform remembers nothing of it. */
  kept({ name, item }: StepCall): Seen | undefined {
    const last = this.#seen.findLast((entry) => entry.step === name && entry.item === item);
    return last?.state === "done" && last.ended_at !== null && last.error === null ? last : undefined;
  }

  /** An entry with its output, which is read only now that its step asks for it. */
  async whole(seen: Seen): Promise<Entry> {
    const { step, item, generation, state, output_ref, small } = seen;
    const mayHaveOne =
      (state === "done" || (state === "failed" && seen.token === SKIPPED) || state === "confirmed" || state === "superseded") &&
      output_ref === null;
    const { instanceId } = this;
    if (mayHaveOne && small !== null) return { ...seen, output: small || null };
    return { ...seen, output: mayHaveOne ? await this.recorder.output({ instanceId, step, item, generation }) : null };
  }

  /** True for a step of an earlier pass on which something builds that was done: what was slept once is not slept again. */
  wasOver(label: string): boolean {
    return this.#history?.wasOver(label) ?? false;
  }

  /** True for an effect that is tried anew, and that may stand from its tries in a run before: nothing is on record of those. */
  mayStand(label: string): boolean {
    const left = this.#history?.left[label];
    return left !== undefined && "open" in left && leavesOpen(left);
  }

  /** What a step is called that is tried anew though the platform remembers a failure of it: undefined where the code hears that one. */
  async anewAs(label: string, name: string): Promise<string | undefined> {
    const since = this.#history?.openSince(label);
    if (since === undefined || since > (await patiently(() => this.run.number()))) return undefined;
    const own = ownStep({ type: "do", name });
    return own?.part === "run" && own.nth === since ? undefined : ownName(name, "run", since);
  }

  /**
   * Refuses a step that nobody recorded while one that was recorded should have been named before it: then the names depend on time or
   * chance, and the effect would happen once more under another name.
   */
  async assertSameSteps({ label }: StepCall): Promise<void> {
    await this.entries();
    const startedAt = Date.now();
    for (let missed = this.course.missed(); missed !== undefined; missed = this.course.missed()) {
      if (Date.now() - startedAt > NAMING_MS) throw stepsChanged(label, missed);
      await scheduler.wait(20);
    }
  }

  /** A new attempt at a step's effect, with a token of its own. */
  attempt(step: StepCall, effectClass: RecordedClass, generation = step.since ?? 1): Attempt {
    const { start, undoable = false } = step;
    if (start) this.course.noteAttempt(step.label, start);
    return {
      key: { instanceId: this.instanceId, step: step.name, item: step.item, generation },
      position: this.nextPosition(step),
      class: effectClass,
      token: this.#pass + attemptToken(),
      epoch: 1,
      saysItRuns: !this.#knownToRun,
      begins: this.#isFirst && !this.#knownToRun && !this.#hasWaited,
      undoable,
      ...(start ? this.course.before(step.label, start) : { after: null, caught: null }),
      aloneAs: this.#entries ? null : this.#pass,
    };
  }

  /** Grows with each outcome that is recorded: effects are taken back in the reverse order. */
  nextPosition({ position = this.#positions++ }: StepCall): number {
    return position;
  }

  /** An entry of the step is in the inbox; the write that was asked for then has found the instance so. */
  noteEntry({ label, start }: StepCall, generation: number, standing: Standing | undefined, askedAt: number): void {
    this.#knownToRun = true;
    this.run.note(standing, askedAt);
    if (start) this.course.noteRecorded({ label, generation }, start);
  }

  /** The outcome of the step is on record, as this pass wrote it. */
  noteOutcome({ start }: StepCall): void {
    if (start) this.course.noteOutcome(start);
  }

  /** True when the instance's row says that it runs: the pass has written since it began, and since it waited. */
  get isKnownToRun(): boolean {
    return this.#knownToRun;
  }

  /** The instance waited: its next write says that it runs again. */
  noteWaited(): void {
    this.#knownToRun = false;
    this.#hasWaited = true;
    this.run.noteWaited();
  }
}

/** The error for a step that the code names where an earlier pass recorded another one. */
function stepsChanged(label: string, recorded: string): MillraceError {
  return new MillraceError(
    "nondeterministic_steps",
    `An earlier replay of this instance recorded the step "${recorded}" where the code now calls "${label}". Step names must be the same in every replay: use literals, and put data into the key.`,
    { step: label },
  );
}
