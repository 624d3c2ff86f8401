import type * as z from "zod";
import { assertDeclared, isFunction, isSchema, isWhole } from "../contract/declared.ts";
import { type Duration, durationInWords, durationMs, YEAR_MS } from "../contract/duration.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import type { Draft } from "../contract/message.ts";
import type { Statement } from "../contract/sql.ts";
import type { TraceContext } from "../contract/trace.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";
import type { Stored } from "./stored.ts";

/** What an effect promises; see the guarantees table in README.md. `commit` and `read` need no definition: they are calls on `step`. */
export type EffectClass = Exclude<RecordedClass, "commit">;

/** What a step's code is given. */
export interface EffectCall<Input> {
  readonly input: Input;
  /**
   * The upstream's idempotency key: the same at every attempt, restart and replay of this effect. 32 hex characters; of a `keyed` step that
   * says itself what its upstream's `key` is, that.
   */
  readonly key: string;
  /** Aborts when the step's time is up: pass it to `fetch`. */
  readonly signal: AbortSignal;
  /** The trace of the job. `traceHeaders(trace)` are the headers that go on with it. */
  readonly trace: TraceContext;
  /** The platform's `fetch`, which also carries the trace on, as a span of its own, and ends when the step's time is up. */
  readonly fetch: typeof fetch;
  readonly env: Cloudflare.Env;
}

/** Cloudflare's retry policy, in Cloudflare's words. */
export interface Retries {
  /** Tries after the first. */
  limit: number;
  delay: Duration;
  backoff?: "constant" | "linear" | "exponential";
}

interface Common<Input, Output> {
  /** Default: 5 retries from 10 seconds, exponential. */
  retries?: Retries;
  /** How long one attempt may take. Default 30 seconds, at most 10 minutes. */
  timeout?: Duration;
  /** Does it, and answers what the upstream said. JSON values only. */
  run: (call: EffectCall<Input>) => Promise<Output>;
  /**
   * What goes in. What it marks as sensitive is withheld from what people are shown of the input, which is kept of a `lookup` and a `once`;
   * nothing is held against it.
   */
  input?: z.ZodType;
  /**
   * What an output looks like: an output that a person gives for a doubt is held against it, and comes back as a doubt when it does not
   * fit.
   */
  output?: z.ZodType<Output>;
  /**
   * Takes it back, when an operator undoes the instance: an effect like any other, guarded by its own class, given what went in and
   * what came out. It inherits nothing: its `retries` and `timeout` are its own, or the defaults. An effect without it stays.
   */
  undo?: StepDefinition<Done<Input, Output>, unknown>;
}

/** An effect that happened: what went in, and what came out. */
export interface Done<Input, Output> {
  readonly input: Input;
  readonly output: Output;
}

/** A guarded effect, shared by chains. Only `lookup` has, and must have, a way to ask whether it already happened. */
export type StepDefinition<Input, Output> = PlainStep<Input, Output> | KeyedStep<Input, Output> | LookupStep<Input, Output>;

interface PlainStep<Input, Output> extends Common<Input, Output> {
  effect: "natural" | "once";
}

interface KeyedStep<Input, Output> extends Common<Input, Output> {
  effect: "keyed";
  /**
   * What its code is given as `key`, where the upstream knows the effect by an id that its input has already (a delivery's). The same at
   * every attempt, also of an effect that was taken back and is done again: so one that has a way back is refused. Default: a key of the
   * engine's own.
   */
  key?: (input: Input) => string;
}

interface LookupStep<Input, Output> extends Common<Input, Output> {
  effect: "lookup";
  /** Asks the upstream for what an earlier attempt did; undefined when it did nothing. */
  lookup: (call: EffectCall<Input>) => Promise<Output | undefined>;
}

/** How a step's attempts are made. */
export interface Policy {
  retries?: Retries;
  timeout?: Duration;
}

const EFFECTS: ReadonlySet<string> = new Set(["keyed", "natural", "lookup", "once"] satisfies StepDefinition<never, never>["effect"][]);
const BACKOFFS: ReadonlySet<string> = new Set(["constant", "linear", "exponential"]);

/**
 * A policy with its defaults, and when the platform gives an attempt up. Errors: `config_invalid` for one that the platform cannot take.
 */
export function checkedPolicy({ retries = DEFAULT_RETRIES, timeout = DEFAULT_TIMEOUT }: Policy): Required<Policy> & { timeoutMs: number } {
  const { limit, delay, backoff } = retries ?? {};
  assertDeclared(isWhole(limit, [0, MAX_RETRIES]), `retries.limit must be a whole number from 0 to ${MAX_RETRIES}, not ${String(limit)}.`);
  const isBackoff = backoff === undefined || BACKOFFS.has(backoff);
  assertDeclared(isBackoff, `retries.backoff must be "constant", "linear" or "exponential", not "${backoff}".`);
  if (durationMs(delay) > YEAR_MS) {
    throw new MillraceError("config_invalid", `retries.delay must be at most 365 days, not "${durationInWords(delay)}".`);
  }
  if (durationMs(timeout) === 0 || durationMs(timeout) > MAX_TIMEOUT_MS) {
    throw new MillraceError(
      "config_invalid",
      `A step's timeout must be more than 0 and at most 10 minutes, not "${durationInWords(timeout)}": for longer work, start a batch upstream and wait for its event.`,
    );
  }
  return { retries, timeout, timeoutMs: platformTimeoutMs(timeout) };
}

/**
 * Refuses a way back for an effect under a key of its own: done again, it would be answered what it was before, and nothing would happen.
 * Errors: `config_invalid`.
 */
export function assertWayBack(definition: object, undoable: boolean): void {
  if (!undoable || !("key" in definition && definition.key)) return;
  throw new MillraceError(
    "config_invalid",
    "A keyed step with a custom `key` cannot have an `undo`: after an undo, a retry would send the same key, and the upstream would ignore it. Leave out `key` or `undo`.",
  );
}

/**
 * Declares a guarded effect. Errors: `config_invalid` for an effect that is none, for a time-out beyond 10 minutes, for retries that are
 * none, and for a way back beside a key of its own.
 */
export function defineStep<Input, Output>(definition: StepDefinition<Input, Stored<Output>>): StepDefinition<Input, Output> {
  assertStep(definition);
  assertWayBack(definition, definition.undo !== undefined);
  return definition as StepDefinition<Input, Output>;
}

/** Refuses an effect that no attempt could be made at, and one whose way back is such. Errors: `config_invalid`. */
function assertStep(definition: unknown): void {
  const { effect, run, lookup, key, input, output } = (definition ?? {}) as Readonly<Record<string, unknown>>;
  assertDeclared(EFFECTS.has(String(effect)), `effect must be "keyed", "natural", "lookup" or "once", not "${String(effect)}".`);
  assertDeclared(isFunction(run), "A step needs `run`: the function that executes its effect.");
  assertDeclared(
    effect !== "lookup" || isFunction(lookup),
    "A lookup step needs `lookup`: the function that asks the upstream for the outcome of an attempt.",
  );
  assertDeclared(
    effect !== "keyed" || key === undefined || isFunction(key),
    "A step's `key` must be a function of its input; or leave it out.",
  );
  for (const [what, schema] of Object.entries({ input, output })) {
    assertDeclared(
      schema === undefined || isSchema(schema),
      `A step's \`${what}\` must be a zod 4 schema such as z.object({ … }); or leave it out.`,
    );
  }
  checkedPolicy(definition as Policy);
  assertUndo(definition as { undo?: unknown });
}

/** Refuses a way back that no undo could go: it would only be seen once there is something to take back. Errors: `config_invalid`. */
export function assertUndo({ undo }: { readonly undo?: unknown }): void {
  if (undo === undefined) return;
  try {
    assertStep(undo);
  } catch (error) {
    throw new MillraceError("config_invalid", `A step's \`undo\` must be a step definition, as for defineStep: ${messageOf(error)}`);
  }
}

/** Refuses what is no function where a call of a step gives one. Errors: `config_invalid`. */
export function assertMakes(name: string, given: Readonly<Record<string, unknown>>): void {
  for (const [what, make] of Object.entries(given)) {
    assertDeclared(
      make === undefined || isFunction(make),
      `The ${what} of "${name}" must be a function that returns the writes: () => ({ … }).`,
    );
  }
}

/** What is written with a step's outcome, in the same atomic write. */
export interface Writes {
  /** The app's own rows, in this order: sql`UPDATE …`. */
  statements?: readonly Statement[];
  /** The messages that follow from it. */
  emit?: readonly Draft[];
}

/** What a commit writes, and what it answers to the code behind it. */
export interface Commit<Output> extends Writes {
  output?: Output;
}

export const DEFAULT_RETRIES: Retries = { limit: 5, delay: "10 seconds", backoff: "exponential" };
export const DEFAULT_TIMEOUT: Duration = "30 seconds";

const MAX_TIMEOUT_MS = 600_000;
/** The platform's own limit. */
const MAX_RETRIES = 10_000;

/** The platform's time-out leaves this much beyond the step's own, so that an effect which ends in time can still be recorded. */
const RECORDING_MARGIN_MS = 15_000;

/** When the platform gives an attempt up. */
function platformTimeoutMs(timeout: Duration): number {
  return durationMs(timeout) + RECORDING_MARGIN_MS;
}

/**
 * Refuses to begin what the platform has given up, in a process that was paused: its code may have gone on without. Errors: `step_timeout`.
 */
export function assertNotGivenUp(since: number, timeout: Duration = DEFAULT_TIMEOUT): void {
  if (Date.now() - since <= platformTimeoutMs(timeout)) return;
  throw new MillraceError(
    "step_timeout",
    `The attempt reached its effect after its timeout of ${durationInWords(timeout)}: the effect was not started.`,
  );
}
