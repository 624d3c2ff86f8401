import { codeOf, type ErrorCode, isDefiniteRefusal, MillraceError, messageOf } from "../contract/errors.ts";
import { sayInstead } from "../contract/stack.ts";
import { beginning } from "../contract/text.ts";
import type { Failure, Unrecorded } from "./failure.ts";

/** An error that the workflow's code caught, as it is remembered. */
export interface Caught {
  name: string;
  code?: ErrorCode | undefined;
  message: string;
  /** What is known of its effect; nothing where it has none, or one that is on record. */
  effect?: Unrecorded | undefined;
  /** Set where an operator has had the step tried anew since: then it says nothing, unless the step fails so again. */
  forgotten?: true;
  /** An effect that may have happened because of it, also where nothing is recorded of that. */
  wentOn?: string;
  /** What had settled before that effect was begun, as an entry would say it (see `packBefore`). */
  after?: string | null;
}

/** A step that is tried anew from run `open` on, whatever the platform remembers; `effect`: what may stand of its tries before that. */
export interface Reopened {
  open: number;
  effect?: Unrecorded | undefined;
}

/**
 * What a run leaves to later passes about a step, where nothing recorded remembers it: with what error it failed, if the code heard that;
 * or that it is tried anew, because no code heard of it, or an operator wants that.
 */
export type LeftBehind = Caught | Reopened;

/** So much of a message is remembered, in characters. */
const MAX_MESSAGE_CHARACTERS = 1000;

/** Whether a step has an effect that is recorded by its outcome alone, and whether its code could take that back. */
export interface Acting {
  readonly acts?: boolean | undefined;
  readonly undoable?: boolean | undefined;
}

/** Remembers what the code heard of an error, and what that says of its step's effect where that is recorded by its outcome alone (`acts`). */
export function caughtOf(error: unknown, { acts = false, undoable = false }: Acting = {}): Caught {
  const message = beginning(messageOf(error), MAX_MESSAGE_CHARACTERS);
  const effect = acts && ({ effect: isDefiniteRefusal(error) ? "refused" : undoable ? "undoable" : "unknown" } as const);
  return { name: error instanceof Error ? error.name : "Error", code: codeOf(error), message, ...effect };
}

/** True for a failure that leaves open whether its effect happened. */
export function leavesOpen({ effect }: Pick<Caught, "effect">): boolean {
  return effect !== undefined && effect !== "refused";
}

/** Shortens an error's message to what is remembered of it: so the code hears the same on its first pass as on later ones. */
export function asRemembered(error: unknown): unknown {
  if (error instanceof Error && error.message.length > MAX_MESSAGE_CHARACTERS && !Object.isFrozen(error)) {
    sayInstead(error, beginning(error.message, MAX_MESSAGE_CHARACTERS));
  }
  return error;
}

/** The language's own kinds of errors. */
const KINDS = new Map([EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((kind) => [kind.name, kind]));

/** The error as the code heard it. */
export function errorOf({ name, code, message, effect }: Caught): Error {
  const known = effect === undefined ? {} : { unclear: leavesOpen({ effect }) };
  if (name === "MillraceError" && code) return new MillraceError(code, message, known);
  return Object.assign(new (KINDS.get(name) ?? Error)(message), { name }, code && { code });
}

/** What steps failed of, as it is kept: where that is too much for a row, each says how it begins. */
export function packLeft(left: Readonly<Record<string, LeftBehind>>): string {
  const whole = JSON.stringify(left);
  if (whole.length <= MAX_LEFT_CHARACTERS) return whole;
  const share = Math.max(
    SHORT_MESSAGE_CHARACTERS,
    MAX_MESSAGE_CHARACTERS - Math.ceil((whole.length - MAX_LEFT_CHARACTERS) / Object.keys(left).length),
  );
  const cut = (one: LeftBehind) => ("open" in one ? one : { ...one, after: undefined, message: beginning(one.message, share) });
  return JSON.stringify(Object.fromEntries(Object.entries(left).map(([label, one]) => [label, cut(one)])));
}

/** A row takes 2 MB, of characters that have up to three bytes each; the entry holds other things as well. */
const MAX_LEFT_CHARACTERS = 300_000;
/** Of very many failures so much of each message is kept. */
const SHORT_MESSAGE_CHARACTERS = 40;

/** What the code of a pass has heard, by the labels of its steps. */
interface Heard {
  /** With what errors steps failed. */
  readonly failures: Readonly<Record<string, Caught>>;
  /** Steps that were begun, and of which it has not heard. */
  readonly unheard: readonly string[];
  /** True for a failure that nobody waited for, or of a step that had answered before, with something done behind that. */
  readonly isPast: (label: string) => boolean;
  /** What the runs before had left. */
  readonly before: Readonly<Record<string, LeftBehind>> | undefined;
}

/** A step that is tried anew, and what is known of its tries before that: one that was refused each time has done nothing. */
export function reopened(open: number, effect: Unrecorded | undefined): Reopened {
  return leavesOpen({ effect }) ? { open, effect } : { open };
}

/**
 * What a pass leaves to the next run, as JSON: the failures that its code heard but the one that it ended with, and the steps that are
 * tried anew, because they were under way or their failure is past. Null for nothing.
 */
export function leftBy({ failures, unheard, isPast, before }: Heard, next: number, ended: Failure | null): string | null {
  const open = (labels: readonly string[]) =>
    Object.fromEntries(labels.map((label) => [label, reopened(next, failures[label]?.effect ?? before?.[label]?.effect)]));
  const { [ended?.step ?? ""]: _, [ended?.behind ?? ""]: __, ...heard } = failures;
  const left = { ...before, ...open(unheard), ...heard, ...open(Object.keys(heard).filter(isPast)) };
  return Object.keys(left).length > 0 ? packLeft(left) : null;
}
