import { labelOf } from "../contract/step-names.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { UNDONE } from "../store/inbox/outcome.ts";
import { type Caught, type LeftBehind, packLeft } from "./caught.ts";

/** How a step came out that code went on from: with an error, if it failed and the code caught that. */
export interface Settlement {
  label: string;
  failure?: Caught;
}

/** A settlement as an entry keeps it: the label, in a list of its own when the step had failed. */
type Mark = string | [string];

/** An entry that says already what had settled before it. */
export interface Basis {
  readonly label: string;
  readonly generation: number;
}

/** A basis as an entry keeps it: the label, with the generation when that is not the first. */
type BasisMark = string | [string, number] | null;

/** What had settled before a step was begun, as its entry keeps it: of all that, what the entry of `basis` does not say already. */
export function packBefore(basis: Basis | null, settled: readonly Settlement[]): { after: string | null; caught: string | null } {
  if (basis === null && settled.length === 0) return { after: null, caught: null };
  const base: BasisMark = basis && (basis.generation === 1 ? basis.label : [basis.label, basis.generation]);
  const marks: Mark[] = settled.map(({ label, failure }) => (failure ? [label] : label));
  const failures = settled.flatMap(({ label, failure }) => (failure ? [[label, failure]] : []));
  return {
    after: JSON.stringify([base, ...marks]),
    caught: failures.length > 0 ? packLeft(Object.fromEntries(failures)) : null,
  };
}

/** One recorded step of the workflow's code, in one of its generations. */
interface Past {
  label: string;
  generation: number;
  position: number;
  updatedAt: number;
  state: Seen["state"];
  isUndone: boolean;
  basis: Basis | null;
  settled: { label: string; failed: boolean }[];
  caught: Readonly<Record<string, Caught>>;
}

/** How far a pass has come. */
export interface Progress {
  hasBegun(label: string): boolean;
  hasSettled(label: string, failed: boolean): boolean;
}

/** What earlier passes wrote down about the order of things: which steps they recorded, and what had settled before each was begun. */
export class History {
  /** In which order steps settled, as far as recorded steps were begun behind them; then the other recorded ones. */
  readonly order: readonly string[];
  readonly #newest = new Map<string, Past>();
  readonly #generations = new Map<string, Past>();
  readonly #caught = new Map<string, Caught>();
  readonly #forgotten = new Map<string, Caught>();
  readonly #over = new Set<string>();
  readonly #builtOn = new Set<string>();
  readonly #kept = new Set<string>();
  readonly #told = new Map<Past, number>();
  readonly #due = new Set<Past>();

  readonly #open = new Map<string, number>();

  constructor(
    entries: readonly Seen[],
    /** What the runs before had left. */
    readonly left: Readonly<Record<string, LeftBehind>> = {},
  ) {
    for (const [label, one] of Object.entries(left)) {
      if ("open" in one) this.#open.set(label, one.open);
      else this.#caught.set(label, one);
    }
    for (const entry of entries) {
      if (entry.position < 0) continue;
      const past = pastOf(entry);
      this.#newest.set(past.label, past);
      this.#generations.set(keyOf(past), past);
    }
    const newest = [...this.#newest.values()].toSorted(inOrderOfRuns(entries));
    const order = new Set<string>();
    // What was begun behind a caught failure, and is on record nowhere else, comes last: an entry says it as of a later run.
    const begun = Object.values(left).flatMap((one) => ("after" in one && one.after ? [begunAfter(one.after)] : []));
    for (const past of this.#behind([...newest, ...begun])) {
      // Tried anew, a step has no turn yet: it may wait for what was begun behind it.
      for (const { label, failed } of past.settled) {
        const isForgotten = past.caught[label]?.forgotten || (failed && this.#open.has(label));
        if (!isForgotten) order.add(label);
      }
    }
    // What an earlier pass had not heard of when it ended comes last: it may have ended with what it heard before that.
    const done = newest.filter(({ state }) => state === "done");
    for (const { label } of done) if (!this.#open.has(label)) order.add(label);
    for (const { label } of done) order.add(label);
    this.order = [...order];
    const happened = [...this.#generations.values()].filter(mayHaveHappened).toSorted(inOrderOfRuns(entries));
    const failedFor = new Set<string>();
    for (const { caught, settled } of this.#behind(happened)) {
      for (const [failed, error] of Object.entries(caught)) (error.forgotten ? this.#forgotten : this.#caught).set(failed, error);
      for (const failed of Object.keys(caught)) failedFor.add(failed);
      for (const { label, failed } of settled) if (!failed) this.#over.add(label);
    }
    for (const [label, one] of Object.entries(left)) if ("wentOn" in one) this.#kept.add(label);
    for (const { caught } of this.#behind(happened.filter(isForGood))) for (const failed of Object.keys(caught)) this.#kept.add(failed);
    for (const { settled } of this.#behind(newest.filter(({ state }) => HAPPENED.has(state)))) {
      for (const { label, failed } of settled) if (!failed) this.#builtOn.add(label);
    }
    // A run that ended with a step's failure says nothing against what another pass of it, or a run before, did behind that step.
    for (const label of this.#builtOn) if (label in left && !failedFor.has(label)) this.#caught.delete(label);
  }

  /**
   * With what error a step failed that recorded steps went on from, also where a late attempt at it was recorded since: the code went its
   * way without.
   */
  failureOf(label: string): Caught | undefined {
    return this.#caught.get(label);
  }

  /**
   * True for a failure that every later pass is told as well, with what may have happened behind it: what is under way may still turn out
   * not to have happened.
   */
  keepsFailureOf(label: string): boolean {
    return this.#caught.has(label) && this.#kept.has(label);
  }

  /** The same, also where nothing is known to have happened behind it. */
  isTold(label: string): boolean {
    const left = this.left[label];
    return this.keepsFailureOf(label) || (this.#caught.has(label) && left !== undefined && !("open" in left));
  }

  /** True for a step that had come out well before something was done that stands. */
  wasOver(label: string): boolean {
    return this.#over.has(label);
  }

  /** True for a step that had come out well before something was done that stands, and that nobody has asked to be done once more. */
  isBuiltOn(label: string): boolean {
    return this.#builtOn.has(label);
  }

  /** The run from which on a step is tried anew. */
  openSince(label: string): number | undefined {
    return this.#open.get(label);
  }

  /** What a recorded entry builds on. */
  baseOf(entry: Basis): Basis | null {
    return this.#generations.get(keyOf(entry))?.basis ?? null;
  }

  /** True for a step that is tried anew and fails as it did when recorded steps went on from that. */
  failsAgain(label: string, error: Caught): boolean {
    const before = this.#forgotten.get(label);
    return before !== undefined && before.name === error.name && before.message === error.message;
  }

  /**
   * The entry of a recorded step when it says of all that has settled in this pass (`count`) that it had, and how: those behind it need not
   * say so again.
   */
  basisAt(label: string, pass: Progress, count: number): Basis | undefined {
    const step = this.#newest.get(label);
    return step && this.#isDue(step, pass) && this.#tells(step) === count ? step : undefined;
  }

  /** A step that earlier passes recorded, and that code which is the same on every pass would have begun by now. */
  missedBy(pass: Progress): string | undefined {
    for (const [label, step] of this.#newest) if (!pass.hasBegun(label) && this.#isDue(step, pass)) return label;
    return undefined;
  }

  /** True for what happened when all that had settled before it was begun has settled in this pass. */
  #isDue(step: Past, pass: Progress): boolean {
    if (!HAPPENED.has(step.state)) return false;
    const chain = this.#chain(step, this.#due);
    if (!this.#isWhole(chain, this.#due)) return false;
    for (const past of chain) {
      // A generation that is free to be taken has not said yet when that is; nor is it due behind a failure that is forgotten.
      const isAsItWas = past.settled.every(({ label, failed }) => hasComeOut(pass, label, failed) && !past.caught[label]?.forgotten);
      if (past.state === "failed" || !isAsItWas) return false;
      this.#due.add(past);
    }
    return true;
  }

  /**
   * How many steps an entry, with those that it builds on, says to have settled; not a number when it does not say of each failure any more
   * with what error that was: an operator may have had one forgotten.
   */
  #tells(step: Past): number {
    for (const past of this.#chain(step, this.#told)) {
      const basis = this.#basisOf(past);
      const before = past.basis === null ? 0 : ((basis && this.#told.get(basis)) ?? Number.NaN);
      const known = past.settled.every(({ label, failed }) => !failed || (this.#caught.has(label) && !past.caught[label]?.forgotten));
      this.#told.set(past, known ? before + past.settled.length : Number.NaN);
    }
    return this.#told.get(step) ?? Number.NaN;
  }

  /** Entries in this order, each behind those that it builds on. */
  #behind(steps: readonly Past[]): ReadonlySet<Past> {
    const all = new Set<Past>();
    for (const step of steps) for (const past of this.#chain(step, all)) all.add(past);
    return all;
  }

  /** An entry behind those that it builds on, as far as they are not `known`. */
  #chain(step: Past, known: { has(past: Past): boolean }): Past[] {
    const chain = new Set<Past>();
    // Where it runs in a circle, because entries of it were written anew by other passes, it ends.
    for (let past: Past | undefined = step; past && !known.has(past) && !chain.has(past); past = this.#basisOf(past)) chain.add(past);
    return [...chain].toReversed();
  }

  /** False for a chain that begins nowhere. */
  #isWhole([first]: Past[], known: { has(past: Past): boolean }): boolean {
    if (!first || first.basis === null) return true;
    const basis = this.#basisOf(first);
    return basis !== undefined && known.has(basis);
  }

  #basisOf({ basis }: Past): Past | undefined {
    return basis === null ? undefined : this.#generations.get(keyOf(basis));
  }
}

/** As it was, or worse: what had answered before, and fails now, leads to no other way than that which was gone. */
function hasComeOut(pass: Progress, label: string, failed: boolean): boolean {
  return pass.hasSettled(label, failed) || (!failed && pass.hasSettled(label, true));
}

function pastOf({ step, item, generation, position, state, token, after, caught, updated_at }: Seen): Past {
  return {
    label: labelOf(step, item),
    generation,
    position,
    updatedAt: updated_at,
    state,
    isUndone: state === "superseded" && token === UNDONE,
    ...unpackBefore(after),
    caught: caught === null ? {} : (JSON.parse(caught) as Record<string, Caught>),
  };
}

/** An effect that was begun, and of which nothing else is on record. */
function begunAfter(after: string): Past {
  const nothing = { label: "", generation: 0, position: 0, updatedAt: 0, state: "failed", isUndone: false, caught: {} } as const;
  return { ...nothing, ...unpackBefore(after) };
}

function unpackBefore(after: string | null): Pick<Past, "basis" | "settled"> {
  const [base = null, ...marks] = after === null ? [] : (JSON.parse(after) as [BasisMark, ...Mark[]]);
  const [label, of] = typeof base === "string" ? [base, 1] : (base ?? []);
  return {
    basis: label === undefined || of === undefined ? null : { label, generation: of },
    settled: marks.map((mark) => ({ label: String(mark), failed: typeof mark !== "string" })),
  };
}

/** Also an effect that a person had done once more, because nobody knew. */
function mayHaveHappened({ state, isUndone }: Past): boolean {
  return state !== "failed" && !isUndone;
}

/** What can no more turn out not to have happened, but be taken back. */
function isForGood({ state }: Past): boolean {
  return state === "done" || state === "superseded";
}

function keyOf({ label, generation }: Basis): string {
  return `${generation} ${label}`;
}

/**
 * The latest run first: it went the way of those before it as far as that was recorded, and says more. What an undo left standing keeps its
 * place in its own run.
 */
function inOrderOfRuns(entries: readonly Seen[]): (one: Past, other: Past) => number {
  const undoneAt = entries.flatMap(({ token, updated_at }) => (token === UNDONE ? [updated_at] : []));
  const undosSince = new Map<Past, number>();
  const undosOf = (past: Past) => {
    const undos = undosSince.get(past) ?? undoneAt.filter((at) => at >= past.updatedAt).length;
    undosSince.set(past, undos);
    return undos;
  };
  return (one, other) => undosOf(one) - undosOf(other) || one.position - other.position;
}

const HAPPENED: ReadonlySet<Seen["state"]> = new Set(["claimed", "in_doubt", "confirmed", "done"]);
