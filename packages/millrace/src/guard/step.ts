import type * as z from "zod";
import { assertDeclared, isFunction, isSchema, isWhole } from "../contract/declared.ts";
import { type Duration, durationInWords, durationMs, YEAR_MS } from "../contract/duration.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import type { Draft } from "../contract/message.ts";
import type { Statement } from "../contract/sql.ts";
import type { TraceContext } from "../contract/trace.ts";
import type { Progress } from "../replay/progress.ts";

/** Argument of the functions of all steps. */
export interface Reporting {
  /**
   * Reports the progress of this attempt, for operators. The call returns at once and never fails. At most one report a second is stored:
   * the newest report.
   */
  progress(report: Progress): void;
}

/** The argument of a step's `run` and `lookup`. */
export interface EffectCall<Input> extends Reporting {
  readonly input: Input;
  /**
   * Idempotency key for the upstream: 32 hex characters, the same at every attempt, restart and replay of this effect. For a `keyed`
   * step with its own `key`, the value that `key` returns.
   */
  readonly key: string;
  /** A signal that aborts at the step's timeout. Pass the signal to clients other than `fetch` below. */
  readonly signal: AbortSignal;
  /** The trace context of the job. `traceHeaders(trace)` returns the headers for a call to an upstream. */
  readonly trace: TraceContext;
  /** The platform's `fetch`. This `fetch` adds the trace headers, records a span and aborts at the step's timeout. */
  readonly fetch: typeof fetch;
  readonly env: Cloudflare.Env;
}

/** Retry policy with the field names of Cloudflare Workflows. */
export interface Retries {
  /** Number of retries after the first attempt: 0 to 10,000. */
  limit: number;
  delay: Duration;
  backoff?: "constant" | "linear" | "exponential";
}

interface Common<Input, Output> {
  /** How failed attempts are repeated. Default: 5 retries from 10 seconds, exponential. */
  retries?: Retries;
  /** Timeout of one attempt. The default is 30 seconds, the maximum is 10 minutes. */
  timeout?: Duration;
  /** Executes the effect and returns the upstream's answer, as JSON values. */
  run: (call: EffectCall<Input>) => Promise<Output>;
  /**
   * Schema of the input. The schema redacts fields marked as sensitive where the input is shown to operators (`lookup` and `once` store
   * it). The input is not validated.
   */
  input?: z.ZodType;
  /** Schema of the output. An output that an operator confirms is validated with this schema; a mismatch leaves the effect `in_doubt`. */
  output?: z.ZodType<Output>;
  /**
   * Undoes the effect when an operator undoes the instance. The undo is a step with its own class, `retries` and `timeout`, and gets the
   * input and output of the effect. Without `undo` the effect remains.
   */
  undo?: StepDefinition<Done<Input, Output>, unknown>;
}

/** The input and output of an effect that happened, which are the arguments of the effect's `undo`. */
export interface Done<Input, Output> {
  readonly input: Input;
  readonly output: Output;
}

/**
 * A guarded effect, which several workflows can share. Only the class `lookup` has, and requires, a function that asks whether the
 * effect happened.
 */
export type StepDefinition<Input, Output> = PlainStep<Input, Output> | KeyedStep<Input, Output> | LookupStep<Input, Output>;

interface PlainStep<Input, Output> extends Common<Input, Output> {
  effect: "natural" | "once";
}

interface KeyedStep<Input, Output> extends Common<Input, Output> {
  effect: "keyed";
  /**
   * Idempotency key if the upstream identifies the effect by an id in its input, such as a delivery id. The key must be the same at every
   * attempt. Not allowed with `undo`, because an effect that is repeated after an undo would send the same key. Default: a key that the
   * engine generates.
   */
  key?: (input: Input) => string;
}

interface LookupStep<Input, Output> extends Common<Input, Output> {
  effect: "lookup";
  /** Asks the upstream for the result of an earlier attempt. Returns undefined if the attempt had no effect. */
  lookup: (call: EffectCall<Input>) => Promise<Output | undefined>;
}

/** Retries and timeout of a step. */
export interface Policy {
  retries?: Retries;
  timeout?: Duration;
}

const EFFECTS: ReadonlySet<string> = new Set(["keyed", "natural", "lookup", "once"] satisfies StepDefinition<never, never>["effect"][]);
const BACKOFFS: ReadonlySet<string> = new Set(["constant", "linear", "exponential"]);

/**
 * A step's policy with defaults, and the timeout for the platform. Errors: `config_invalid` if the platform does not accept the policy.
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
 * Refuses `undo` for a step with its own `key`. After an undo, a repeated effect would send the same key, and the upstream would do
 * nothing. Errors: `config_invalid`.
 */
export function assertWayBack(definition: object, undoable: boolean): void {
  if (!undoable || !("key" in definition && definition.key)) return;
  throw new MillraceError(
    "config_invalid",
    "A keyed step with a custom `key` cannot have an `undo`: after an undo, a retry would send the same key, and the upstream would ignore it. Leave out `key` or `undo`.",
  );
}

/**
 * Declares a guarded effect. Errors: `config_invalid` for an unknown class, a missing function, a timeout over 10 minutes, invalid retries,
 * or `undo` with `key`.
 */
export function defineStep<Input, Output>(definition: StepDefinition<Input, Stored<Output>>): StepDefinition<Input, Output> {
  assertStep(definition);
  assertWayBack(definition, definition.undo !== undefined);
  return definition as StepDefinition<Input, Output>;
}

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

/**
 * Validates `undo` at declaration, because the error would otherwise appear only when an effect has to be undone. Errors: `config_invalid`.
 */
export function assertUndo({ undo }: { readonly undo?: unknown }): void {
  if (undo === undefined) return;
  try {
    assertStep(undo);
  } catch (error) {
    throw new MillraceError("config_invalid", `A step's \`undo\` must be a step definition, as for defineStep: ${messageOf(error)}`);
  }
}

/** Validates that a value is a function. Errors: `config_invalid` for any other value. */
export function assertMakes(name: string, given: Readonly<Record<string, unknown>>): void {
  for (const [what, make] of Object.entries(given)) {
    assertDeclared(
      make === undefined || isFunction(make),
      `The ${what} of "${name}" must be a function that returns the writes: () => ({ … }).`,
    );
  }
}

/** Writes stored with a step's outcome, in the same atomic write. */
export interface Writes {
  /** Rows of the app to write, in this order: sql`UPDATE …`. */
  statements?: readonly Statement[];
  /** Messages to send after the write. */
  emit?: readonly Draft[];
}

/** The writes of a commit, and the output that the commit returns to the workflow. */
export interface Commit<Output> extends Writes {
  output?: Output;
}

export const DEFAULT_RETRIES: Retries = { limit: 5, delay: "10 seconds", backoff: "exponential" };
export const DEFAULT_TIMEOUT: Duration = "30 seconds";

const MAX_TIMEOUT_MS = 600_000;
/** The platform's maximum number of retries of a step. */
const MAX_RETRIES = 10_000;

/** Time added to a step's timeout, so that an effect that ends in time can still be recorded. */
const RECORDING_MARGIN_MS = 15_000;

function platformTimeoutMs(timeout: Duration): number {
  return durationMs(timeout) + RECORDING_MARGIN_MS;
}

/**
 * Refuses to start an effect after the platform's timeout, for instance in a process that was paused, because the workflow may have
 * continued without the effect. Errors: `step_timeout`.
 */
export function assertNotGivenUp(since: number, timeout: Duration = DEFAULT_TIMEOUT): void {
  if (Date.now() - since <= platformTimeoutMs(timeout)) return;
  throw new MillraceError(
    "step_timeout",
    `The attempt reached its effect after its timeout of ${durationInWords(timeout)}: the effect was not started.`,
  );
}

/**
 * The type of an output after JSON. A type that JSON changes becomes a literal type with the compiler's error message. `packOutput` refuses
 * at run time the values that the compiler cannot detect by their type. A generic function that wraps a step declares `Stored<T>` for its
 * type parameter `T`.
 */
export type Stored<T> = unknown extends T
  ? T
  : // biome-ignore lint/suspicious/noConfusingVoidType: what a function without a return answers
    T extends string | number | boolean | null | undefined | void
    ? T
    : T extends bigint
      ? "JSON has no bigint: return its toString()"
      : T extends symbol | Callable
        ? "JSON has no functions and no symbols: return plain data"
        : T extends Date
          ? "A Date comes back from JSON as text: return its toISOString() or getTime()"
          : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
            ? "A Map or a Set is {} in JSON: return [...it]"
            : T extends PromiseLike<unknown>
              ? "A promise is {} in JSON: await it"
              : T extends readonly unknown[]
                ? { [K in keyof T]: Stored<T[K]> }
                : MethodOf<T> extends never
                  ? { [K in keyof T]: K extends symbol ? T[K] : Stored<T[K]> }
                  : "JSON keeps no methods: return plain data instead of an object of a class";

type Callable = (...args: never) => unknown;

/** Names of an object's methods. Symbol keys are excluded, because JSON omits them. */
type MethodOf<T> = { [K in keyof T]-?: K extends symbol ? never : Extract<T[K], Callable> extends never ? never : K }[keyof T];
