import { codeOf, type ErrorCode, MillraceError, messageOf } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import type { Seen } from "../recorder/entry.ts";

/** The name on the platform of a step, or of one of its parallel calls. */
export function labelOf(name: string, item: string): string {
  return item ? `${name} [${item}]` : name;
}

/** How a step came out that code went on from: with an error, if it failed and the code caught that. */
export interface Settlement {
  label: string;
  failure?: Caught;
}

/** An error that the workflow's code caught, as it is remembered. */
export interface Caught {
  name: string;
  code?: ErrorCode | undefined;
  message: string;
}

/** Remembers what the code heard of an error. */
export function caughtOf(error: unknown): Caught {
  return { name: error instanceof Error ? error.name : "Error", code: codeOf(error), message: beginning(messageOf(error), 1000) };
}

/** The error as the code heard it. */
export function errorOf({ name, code, message }: Caught): Error {
  if (name === "MillraceError" && code) return new MillraceError(code, message);
  return Object.assign(new Error(message), { name }, code && { code });
}

/** A settlement as an entry keeps it: the label, in a list of its own when the step had failed. */
type Mark = string | [string];

/** What had settled before a step was begun, as its entry keeps it: of all that, what the entry of `basis` does not say already. */
export function packBefore(basis: string | null, settled: readonly Settlement[]): { after: string | null; caught: string | null } {
  if (basis === null && settled.length === 0) return { after: null, caught: null };
  const marks: Mark[] = settled.map(({ label, failure }) => (failure ? [label] : label));
  const failures = settled.flatMap(({ label, failure }) => (failure ? [[label, failure]] : []));
  return {
    after: JSON.stringify([basis, ...marks]),
    caught: failures.length > 0 ? JSON.stringify(Object.fromEntries(failures)) : null,
  };
}

/** One recorded step of the workflow's code. */
interface Past {
  label: string;
  state: Seen["state"];
  basis: string | null;
  settled: { label: string; failed: boolean }[];
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
  readonly #steps = new Map<string, Past>();
  readonly #caught = new Map<string, Caught>();

  constructor(entries: readonly Seen[]) {
    const newest = new Map<string, Seen>();
    for (const entry of entries) if (entry.position >= 0) newest.set(labelOf(entry.step, entry.item), entry);
    const order = new Set<string>();
    for (const [label, entry] of [...newest].toSorted(([, one], [, other]) => one.position - other.position)) {
      const [basis = null, ...marks] = entry.after === null ? [] : (JSON.parse(entry.after) as [string | null, ...Mark[]]);
      const settled = marks.map((mark) => ({ label: String(mark), failed: typeof mark !== "string" }));
      this.#steps.set(label, { label, state: entry.state, basis, settled });
      for (const one of settled) order.add(one.label);
      if (entry.caught === null || entry.state === "failed") continue;
      for (const [failed, error] of Object.entries(JSON.parse(entry.caught) as Record<string, Caught>)) this.#caught.set(failed, error);
    }
    for (const { label, state } of this.#steps.values()) if (state === "done") order.add(label);
    this.order = [...order];
  }

  /** With what error a step failed that recorded steps went on from; undefined where it has come out otherwise since. */
  failureOf(label: string): Caught | undefined {
    const state = this.#steps.get(label)?.state;
    return state === undefined || state === "failed" || state === "claimed" ? this.#caught.get(label) : undefined;
  }

  /** True for a recorded step when all that had settled before it was begun has settled in this pass, and in the same way. */
  isDue(label: string, pass: Progress): boolean {
    let step = this.#steps.get(label);
    // No chain is longer than that; one that runs in a circle, because generations of it were written by different passes, says nothing.
    for (let left = this.#steps.size; step && left > 0 && HAPPENED.has(step.state); left--) {
      if (!step.settled.every((one) => pass.hasSettled(one.label, one.failed))) return false;
      if (step.basis === null || pass.hasBegun(step.basis)) return true;
      step = this.#steps.get(step.basis);
    }
    return false;
  }

  /** True when the entry still says of each failure before it with what error that was: an operator may have had one forgotten. */
  saysAll(label: string): boolean {
    return this.#steps.get(label)?.settled.every((one) => !one.failed || this.#caught.has(one.label)) ?? false;
  }

  /** A step that earlier passes recorded, and that code which is the same on every pass would have begun by now. */
  missedBy(pass: Progress): string | undefined {
    for (const label of this.#steps.keys()) if (!pass.hasBegun(label) && this.isDue(label, pass)) return label;
    return undefined;
  }
}

const HAPPENED: ReadonlySet<Seen["state"]> = new Set(["claimed", "in_doubt", "confirmed", "done"]);
