import { labelOf } from "../contract/step-names.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { UNDONE } from "../store/inbox/outcome.ts";
import { type Caught, type LeftBehind, packLeft } from "./caught.ts";

/** A step whose result the code has received, with the error if the step failed. */
export interface Settlement {
  label: string;
  failure?: Caught;
}

/** A settlement in the stored form: the step's label for a success, and an array with the step's label for a failure. */
type Mark = string | [string];

/** An inbox entry that contains the steps that had settled before the entry's own step began. */
export interface Basis {
  readonly label: string;
  readonly generation: number;
}

/** A basis in the stored form: the step's label, with the generation unless the generation is 1. */
type BasisMark = string | [string, number] | null;

/**
 * The steps that had settled before a step began, in the stored form of the step's entry, without the steps that the entry of `basis`
 * contains.
 */
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

export interface Progress {
  hasBegun(label: string): boolean;
  hasSettled(label: string, failed: boolean): boolean;
}

/** The records of earlier replays: the recorded steps, and for each recorded step the steps that had settled before it began. */
export class History {
  /**
   * The labels of recorded steps. Steps whose order of settling is known from later recorded steps come first, in this order. The other
   * recorded steps follow.
   */
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
    // An effect whose only record is in a caught failure is sorted last, like an entry of a later run.
    const begun = Object.values(left).flatMap((one) => ("after" in one && one.after ? [begunAfter(one.after)] : []));
    for (const past of this.#behind([...newest, ...begun])) {
      // A step that is attempted again has no position yet, because this step may wait for a step that began later.
      for (const { label, failed } of past.settled) {
        const isForgotten = past.caught[label]?.forgotten || (failed && this.#open.has(label));
        if (!isForgotten) order.add(label);
      }
    }
    // Results that an earlier replay had not received at its end are sorted last, because a result that the replay did receive may have
    // ended the replay.
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
    // The failure of a step that ended a run does not override an effect that another replay or an earlier run began after the step.
    for (const label of this.#builtOn) if (label in left && !failedFor.has(label)) this.#caught.delete(label);
  }

  /**
   * The error of a failed step after which other steps were recorded. The error remains even if a late attempt has recorded an outcome of
   * the step since, because the code continued without this outcome.
   */
  failureOf(label: string): Caught | undefined {
    return this.#caught.get(label);
  }

  /** True for a failure that every later replay receives too, because an effect that certainly happened followed the failure. */
  keepsFailureOf(label: string): boolean {
    return this.#caught.has(label) && this.#kept.has(label);
  }

  /** True for a failure for which `keepsFailureOf` is true, and for a failure that an earlier run stored. */
  isTold(label: string): boolean {
    const left = this.left[label];
    return this.keepsFailureOf(label) || (this.#caught.has(label) && left !== undefined && !("open" in left));
  }

  /** True for a step that had succeeded before an effect that is not undone. */
  wasOver(label: string): boolean {
    return this.#over.has(label);
  }

  /** True for a step that had succeeded before an effect that is neither undone nor executed again by the next run. */
  isBuiltOn(label: string): boolean {
    return this.#builtOn.has(label);
  }

  openSince(label: string): number | undefined {
    return this.#open.get(label);
  }

  baseOf(entry: Basis): Basis | null {
    return this.#generations.get(keyOf(entry))?.basis ?? null;
  }

  /** True if a step that is attempted again fails with the same error as before. */
  failsAgain(label: string, error: Caught): boolean {
    const before = this.#forgotten.get(label);
    return before !== undefined && before.name === error.name && before.message === error.message;
  }

  /**
   * The entry of a recorded step, if the entry contains exactly the steps that have settled in this replay (`count`). Later entries need
   * not repeat these steps.
   */
  basisAt(label: string, replay: Progress, count: number): Basis | undefined {
    const step = this.#newest.get(label);
    return step && this.#isDue(step, replay) && this.#tells(step) === count ? step : undefined;
  }

  /**
   * A recorded step that the code has not called, although deterministic code would have called this step by now. `inDoubt`: only a step
   * whose effect may have happened, and whose outcome neither an attempt nor an operator has recorded.
   */
  missedBy(replay: Progress, inDoubt: boolean): string | undefined {
    for (const [label, step] of this.#newest) {
      const isSettled = step.state === "done" || step.state === "confirmed";
      if (!replay.hasBegun(label) && !(inDoubt && isSettled) && this.#isDue(step, replay)) return label;
    }
    return undefined;
  }

  /** True for an effect if all steps that had settled before it in an earlier replay have settled in this replay. */
  #isDue(step: Past, replay: Progress): boolean {
    if (!HAPPENED.has(step.state)) return false;
    const chain = this.#chain(step, this.#due);
    if (!this.#isWhole(chain, this.#due)) return false;
    for (const past of chain) {
      // An unclaimed generation has no position in the order yet. A failure that is ignored after a retry has no position either.
      const isAsItWas = past.settled.every(({ label, failed }) => hasComeOut(replay, label, failed) && !past.caught[label]?.forgotten);
      if (past.state === "failed" || !isAsItWas) return false;
      this.#due.add(past);
    }
    return true;
  }

  /**
   * Number of settled steps that an entry and its bases contain. If the error of a failure is missing because an operator retried the step,
   * the result is NaN.
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

  /** Orders entries so that each entry follows its bases. */
  #behind(steps: readonly Past[]): ReadonlySet<Past> {
    const all = new Set<Past>();
    for (const step of steps) for (const past of this.#chain(step, all)) all.add(past);
    return all;
  }

  /** A list of an entry's bases and, at the end, the entry itself, without the entries in `known`. */
  #chain(step: Past, known: { has(past: Past): boolean }): Past[] {
    const chain = new Set<Past>();
    // Entries that other replays rewrote can form a cycle. The chain ends where an entry would occur again.
    for (let past: Past | undefined = step; past && !known.has(past) && !chain.has(past); past = this.#basisOf(past)) chain.add(past);
    return [...chain].toReversed();
  }

  /** True if no basis is missing at the start of a chain of entries. */
  #isWhole([first]: Past[], known: { has(past: Past): boolean }): boolean {
    if (!first || first.basis === null) return true;
    const basis = this.#basisOf(first);
    return basis !== undefined && known.has(basis);
  }

  #basisOf({ basis }: Past): Past | undefined {
    return basis === null ? undefined : this.#generations.get(keyOf(basis));
  }
}

/**
 * True if the step has settled as recorded. The result is also true for a step that succeeded before and fails in this replay, because the
 * code then takes no other recorded path.
 */
function hasComeOut(replay: Progress, label: string, failed: boolean): boolean {
  return replay.hasSettled(label, failed) || (!failed && replay.hasSettled(label, true));
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

/** True for an effect that may have happened, including an unknown outcome that an operator had executed again. */
function mayHaveHappened({ state, isUndone }: Past): boolean {
  return state !== "failed" && !isUndone;
}

/** True for an effect that certainly happened, so that only an undo can remove the effect. */
function isForGood({ state }: Past): boolean {
  return state === "done" || state === "superseded";
}

function keyOf({ label, generation }: Basis): string {
  return `${generation} ${label}`;
}

/**
 * Sorts the entries of the latest run first, because the latest run followed the recorded path of the earlier runs and contains more steps.
 * Effects that an undo ignored keep the position of their run.
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
