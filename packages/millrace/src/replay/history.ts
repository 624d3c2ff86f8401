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

/**
 * The steps that had settled before a step began, in the stored form of the step's entry. The entry omits the first `from` steps, because
 * the log has them already.
 */
export function packBefore(from: number, settled: readonly Settlement[]): { after: string | null; caught: string | null } {
  if (from === 0 && settled.length === 0) return { after: null, caught: null };
  const marks: Mark[] = settled.map(({ label, failure }) => (failure ? [label] : label));
  const failures = settled.flatMap(({ label, failure }) => (failure ? [[label, failure]] : []));
  return {
    after: JSON.stringify([from, ...marks]),
    caught: failures.length > 0 ? packLeft(Object.fromEntries(failures)) : null,
  };
}

/** A settled step in the order of a replay, after the step `before`. `count` is the number of settled steps up to this step. */
interface Link {
  readonly label: string;
  readonly failed: boolean;
  readonly error: Caught | undefined;
  /** True for a failure that is ignored, because an operator has retried the step since. */
  readonly isCleared: boolean;
  readonly before: Link | undefined;
  readonly count: number;
}

interface Past {
  readonly label: string;
  readonly generation: number;
  readonly position: number;
  readonly state: Seen["state"];
  readonly token: string;
  /** The step that had settled last before this step began. */
  readonly last: Link | undefined;
  /** False if the log lacks steps that had settled before this step began. */
  readonly isWhole: boolean;
}

/** A result that the code receives, or an effect that the code begins. */
type Next = (Link & { readonly state?: undefined }) | Past;

export interface Progress {
  hasBegun(label: string): boolean;
  hasSettled(label: string, failed: boolean): boolean;
  /** True for a step that the code did not call in time. */
  isSkipped(label: string): boolean;
}

/**
 * The records of earlier replays. The log is the list of the settled steps, in the order in which the code received their results. The
 * entries that remain as they are contain the log in parts, in the order of their positions. A part that differs from the log replaces the
 * log from there on, because a later run has taken another path.
 */
export class History {
  /** The labels of recorded steps: first the steps of the log, then the other recorded steps in the order of their records. */
  readonly order: readonly string[];
  /** The start of the log that every later replay receives too, because an effect that certainly happened followed it. */
  readonly log: readonly Link[];
  readonly #pasts: readonly Past[];
  readonly #caught = new Map<string, Caught>();
  readonly #over = new Set<string>();
  /** The effects that may have happened, and the results before these effects, by the result before each. */
  readonly #following: ReadonlyMap<Next | undefined, readonly Next[]>;
  /** The results and effects that come next, because this replay has received all results before them. */
  readonly #next: Set<Next>;
  readonly #open = new Map<string, number>();

  constructor(
    entries: readonly Seen[],
    readonly left: Readonly<Record<string, LeftBehind>> = {},
  ) {
    for (const [label, one] of Object.entries(left)) {
      if ("open" in one) this.#open.set(label, one.open);
      else this.#caught.set(label, one);
    }
    const { log, pasts, begun, newest } = inParts(entries, left);
    this.#pasts = pasts;
    this.#following = followingOf([...newest.values()].filter(({ state, isWhole }) => HAPPENED.has(state) && isWhole));
    this.#next = new Set(this.#following.get(undefined));
    const order = new Set<string>();
    const current = [...newest.values()];
    // A later entry has followed the order of earlier entries, and contains more steps.
    for (const { label, failed, isCleared } of linksOf([...current, ...begun].toSorted((one, other) => other.position - one.position))) {
      // A step that is attempted again has no position yet, because this step may wait for a step that began later.
      if (!isCleared && !(failed && this.#open.has(label))) order.add(label);
    }
    // Results that an earlier replay had not received at its end are sorted last, because a result that the replay did receive may have
    // ended the replay.
    const done = current.filter(({ state }) => state === "done");
    for (const { label } of done) if (!this.#open.has(label)) order.add(label);
    for (const { label } of done) order.add(label);
    this.order = [...order];
    const happened = pasts.filter(mayHaveHappened);
    const failedFor = new Set<string>();
    for (const { label, failed, error, isCleared } of linksOf(happened)) {
      if (!failed) this.#over.add(label);
      if (error === undefined) continue;
      if (!isCleared) this.#caught.set(label, error);
      failedFor.add(label);
    }
    const forGood = new Set(linksOf(happened.filter(isForGood)));
    const end = log.findIndex((link) => !forGood.has(link) || link.isCleared);
    this.log = end < 0 ? log : log.slice(0, end);
    // The failure of a step that ended a run does not override an effect that another replay or an earlier run began after the step.
    for (const label of this.#over) if (label in left && !failedFor.has(label)) this.#caught.delete(label);
  }

  /**
   * The error of a failed step after which other steps were recorded. The error remains even if a late attempt has recorded an outcome of
   * the step since, because the code continued without this outcome.
   */
  failureOf(label: string): Caught | undefined {
    return this.#caught.get(label);
  }

  /** The failures that the code receives again, by step label (see `failureOf`). */
  get failures(): ReadonlyMap<string, Caught> {
    return this.#caught;
  }

  /** True for a step that had succeeded before an effect that is not undone. */
  wasOver(label: string): boolean {
    return this.#over.has(label);
  }

  openSince(label: string): number | undefined {
    return this.#open.get(label);
  }

  /** The first effect that may have happened because the code caught the failure of this step. The effect may have no record. */
  wentOnFrom(label: string | null): string | undefined {
    const isIt = (link: Link) => link.label === label && link.failed && !link.isCleared;
    const recorded = this.#pasts.find((past) => mayHaveHappened(past) && linksOf([past]).some(isIt));
    const failure = label === null ? undefined : this.left[label];
    return recorded?.label ?? (failure && "wentOn" in failure ? failure.wentOn : undefined);
  }

  /** True if another replay has recorded an effect, since the entries `read`, after results in another order than `settled`. */
  contradicts(settled: readonly Settlement[], read: readonly Seen[], replay: string): boolean {
    const known = new Set(read.map(({ position }) => position));
    // Each write of a replay gives an entry a new position, also an entry that an undo or a lost claim has left for it.
    const isNew = ({ position, token }: Past) => !known.has(position) && !token.startsWith(replay);
    const others = this.#pasts.filter((past) => isNew(past) && mayHaveHappened(past));
    return linksOf(others).some(({ label, failed, count }) => {
      const own = settled[count - 1];
      return own !== undefined && (own.label !== label || (own.failure !== undefined) !== failed);
    });
  }

  /**
   * A recorded step that the code has not called, although deterministic code would have called this step by now. `inDoubt`: only a step
   * whose effect may have happened, and whose outcome neither an attempt nor an operator has recorded.
   */
  missedBy(replay: Progress, inDoubt: boolean): string | undefined {
    for (const next of this.#uncalled(replay)) {
      const isSettled = next.state === "done" || next.state === "confirmed";
      if (next.state !== undefined && !(inDoubt && isSettled)) return next.label;
    }
    return undefined;
  }

  /** Like `missedBy`, but also a step without a record that had settled before a recorded step, and no skipped step. */
  uncalledBy(replay: Progress): string | undefined {
    for (const { label } of this.#uncalled(replay)) if (!replay.isSkipped(label)) return label;
    return undefined;
  }

  /** The steps that deterministic code would have called by now, and that the code has not called. */
  *#uncalled(replay: Progress): Generator<Next> {
    for (const next of this.#next) {
      const isOver = "state" in next ? replay.hasBegun(next.label) : hasComeOut(replay, next) || replay.isSkipped(next.label);
      if (isOver) {
        this.#next.delete(next);
        for (const one of this.#following.get(next) ?? []) this.#next.add(one);
      } else if (!replay.hasBegun(next.label)) yield next;
    }
  }
}

/**
 * True if the step has settled as recorded. The result is also true for a step that succeeded before and fails in this replay, because the
 * code then takes no other recorded path.
 */
function hasComeOut(replay: Progress, { label, failed }: Link): boolean {
  return replay.hasSettled(label, failed) || (!failed && replay.hasSettled(label, true));
}

/** Reads the log from the entries, and for each entry the steps that had settled before its step began. */
function inParts(entries: readonly Seen[], left: Readonly<Record<string, LeftBehind>>) {
  const log: Link[] = [];
  const newest = new Map<string, Past>();
  const all = entries.filter(({ position }) => position >= 0).map((entry) => ({ ...entry, label: labelOf(entry.step, entry.item) }));
  const generations = new Map(all.map(({ label, generation }) => [label, generation]));
  // A caught failure may contain the only record that an effect began.
  const unrecorded = Object.values(left).flatMap((one) => {
    if (!("after" in one) || !one.after) return [];
    return [{ label: "", generation: 0, state: "failed" as const, token: "", caught: null, after: one.after, position: one.position ?? 0 }];
  });
  const begun: Past[] = [];
  const pasts: Past[] = [];
  for (const { label, generation, position, state, token, after, caught } of [...unrecorded, ...all].toSorted(byPosition)) {
    const [from = 0, ...marks] = after === null ? [] : (JSON.parse(after) as [number, ...Mark[]]);
    const errors = caught === null ? {} : (JSON.parse(caught) as Record<string, Caught>);
    const links: Link[] = [];
    let last = log[Math.min(from, log.length) - 1];
    for (const mark of marks) {
      const [name, failed] = [String(mark), typeof mark !== "string"];
      const known = log[last?.count ?? 0];
      const error = failed ? errors[name] : undefined;
      const isCleared = failed && position < (left[name]?.upTo ?? 0) && !failsAgain(left[name], error);
      const isKnown = known?.before === last && known?.label === name && known.failed === failed && known.isCleared === isCleared;
      last = isKnown ? known : { label: name, failed, error, isCleared, before: last, count: (last?.count ?? 0) + 1 };
      if (!isKnown) links.push(last);
    }
    const past = { label, generation, position, state, token, last, isWhole: from <= log.length };
    if (generation === 0) begun.push(past);
    else pasts.push(past);
    if (generations.get(label) === generation) newest.set(label, past);
    const [first] = links;
    // Another attempt may replace an entry in any other state, and with the entry its part of the log.
    if (first && isForGood(past)) log.splice(first.count - 1, log.length, ...links);
  }
  return { log, pasts, begun, newest };
}

/** True if a step that was attempted again failed with the same error as before. */
function failsAgain(now: LeftBehind | undefined, before: Caught | undefined): boolean {
  return now !== undefined && !("open" in now) && now.name === before?.name && now.message === before.message;
}

/** No result follows a failure that a retry has cleared, because the code may take another path. */
function followingOf(pasts: readonly Past[]): ReadonlyMap<Next | undefined, readonly Next[]> {
  const links = linksOf(pasts).filter(({ isCleared }) => !isCleared);
  return Map.groupBy<Next | undefined, Next>([...links, ...pasts], (next) => ("last" in next ? next.last : next.before));
}

/** The steps that had settled before these steps began, each once. */
function linksOf(pasts: readonly Past[]): Link[] {
  const all = new Set<Link>();
  for (const { last } of pasts) for (const link of linksTo(last, all)) all.add(link);
  return [...all];
}

/** The links up to `last`, from the first that is not in `known`. */
function linksTo(last: Link | undefined, known: ReadonlySet<Link>): Link[] {
  const links: Link[] = [];
  for (let link = last; link && !known.has(link); link = link.before) links.push(link);
  return links.reverse();
}

function byPosition(one: { position: number }, other: { position: number }): number {
  return one.position - other.position;
}

/** True for an effect that may have happened, including an unknown outcome that an operator had executed again. */
function mayHaveHappened({ state, token }: Past): boolean {
  return state !== "failed" && !(state === "superseded" && token === UNDONE);
}

/** True for an effect that certainly happened. No attempt changes the entry of such an effect. */
function isForGood({ state }: Past): boolean {
  return state === "done" || state === "superseded";
}

const HAPPENED: ReadonlySet<Seen["state"]> = new Set(["claimed", "in_doubt", "confirmed", "done"]);
