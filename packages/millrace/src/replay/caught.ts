import { type ChildFailure, codeOf, type ErrorCode, isDefiniteRefusal, MillraceError, messageOf } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { sayInstead } from "../contract/told-error.ts";
import type { Failure, Unrecorded } from "./failure.ts";

/** An error that the workflow's code caught, as stored for later replays. */
export interface Caught {
  name: string;
  code?: ErrorCode | undefined;
  message: string;
  /** The known status of the step's effect; undefined if the step has no effect, or if the effect is recorded. */
  effect?: Unrecorded | undefined;
  /** The end of a failed child, if the error is `child_failed`. */
  child?: ChildFailure | undefined;
  /** The label of an effect that the code began after it caught the error. The effect may have no record. */
  wentOn?: string;
  /** The steps that had settled before the effect `wentOn` began, and the position, in the format of an inbox entry (see `packBefore`). */
  after?: string | null;
  position?: number;
  /** As for `Reopened`. */
  upTo?: number;
}

/**
 * A step that is attempted again from run `open` on, although the platform remembers its failure. `effect`: the status of the effect that
 * earlier attempts at the step may have had.
 */
export interface Reopened {
  open: number;
  effect?: Unrecorded | undefined;
  /**
   * An operator has retried the step after the records before this position. The step's failures in these records are ignored, unless the
   * step fails with the same error again.
   */
  upTo?: number;
}

/**
 * The state of an unrecorded step, as a run stores it for later replays. The state is an error that the code received, or a new attempt. A
 * new attempt follows if the code received no error, or if an operator retried the step.
 */
export type LeftBehind = Caught | Reopened;

const MAX_MESSAGE_CHARACTERS = 1000;

/** `acts`: the step has an effect of which only the outcome is recorded. `undoable`: the step's code has an undo handler. */
export interface Acting {
  readonly acts?: boolean | undefined;
  readonly undoable?: boolean | undefined;
}

/** The error to store for later replays. If `acts` is true, the stored error contains the known status of the step's effect. */
export function caughtOf(error: unknown, { acts = false, undoable = false }: Acting = {}): Caught {
  const message = beginning(messageOf(error), MAX_MESSAGE_CHARACTERS);
  const effect = acts && ({ effect: isDefiniteRefusal(error) ? "refused" : undoable ? "undoable" : "unknown" } as const);
  const child = error instanceof MillraceError ? error.detail.child : undefined;
  return { name: error instanceof Error ? error.name : "Error", code: codeOf(error), message, ...effect, ...(child && { child }) };
}

/** True if the effect of a failed step may have happened. */
export function leavesOpen({ effect }: Pick<Caught, "effect">): boolean {
  return effect !== undefined && effect !== "refused";
}

/**
 * Shortens an error's message to its stored length, so that the code receives the same message in the first replay and in later replays.
 */
export function asRemembered(error: unknown): unknown {
  if (error instanceof Error && error.message.length > MAX_MESSAGE_CHARACTERS && !Object.isFrozen(error)) {
    sayInstead(error, beginning(error.message, MAX_MESSAGE_CHARACTERS));
  }
  return error;
}

const KINDS = new Map([EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((kind) => [kind.name, kind]));

export function errorOf({ name, code, message, effect, child }: Caught): Error {
  const known = { ...(effect !== undefined && { unclear: leavesOpen({ effect }) }), ...(child && { child }) };
  if (name === "MillraceError" && code) return new MillraceError(code, message, known);
  return Object.assign(new (KINDS.get(name) ?? Error)(message), { name }, code && { code });
}

/** Serializes the state that a run stores for later replays. If the failures are too long for a row, each message is shortened. */
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

/**
 * Maximum length of the stored failures in characters. A D1 row has at most 2 MB, a character has up to 3 bytes, and the inbox entry has
 * other fields.
 */
const MAX_LEFT_CHARACTERS = 300_000;
const SHORT_MESSAGE_CHARACTERS = 40;

/** The results that the code of a replay has received, by step label. */
interface Heard {
  readonly failures: Readonly<Record<string, Caught>>;
  readonly unheard: readonly string[];
  /**
   * Returns true for a failure that the code did not await, and for a failure of a step that had succeeded before and was followed by an
   * effect.
   */
  readonly isPast: (label: string) => boolean;
  /** The known status of a step's effect, if an attempt has failed. The code may have ended before the failure. */
  readonly effectOf: (label: string) => Unrecorded | undefined;
  /** The state that earlier runs stored for this replay. */
  readonly before: Readonly<Record<string, LeftBehind>> | undefined;
}

/**
 * A step to attempt again, with the status of the effect that its earlier attempts may have had. If the upstream refused each attempt, the
 * result contains no status.
 */
export function reopened(open: number, effect: Unrecorded | undefined): Reopened {
  return leavesOpen({ effect }) ? { open, effect } : { open };
}

/**
 * The state that a replay stores for the next run, as JSON. The state contains the failures that the replay's code received, except the
 * last failure, and the steps to attempt again. Null without such failures and steps.
 */
export function leftBy({ failures, unheard, isPast, effectOf, before }: Heard, next: number, ended: Failure | null): string | null {
  const open = (labels: readonly string[]) =>
    Object.fromEntries(
      labels.map((label) => [label, reopened(next, failures[label]?.effect ?? effectOf(label) ?? before?.[label]?.effect)]),
    );
  const { [ended?.step ?? ""]: _, [ended?.behind ?? ""]: __, ...heard } = failures;
  const left = { ...before, ...open(unheard), ...heard, ...open(Object.keys(heard).filter(isPast)) };
  return Object.keys(left).length > 0 ? packLeft(left) : null;
}
