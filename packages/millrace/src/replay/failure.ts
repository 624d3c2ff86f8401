import * as z from "zod";
import { causeId } from "../contract/cause.ts";
import { beforeWords, messageBeside } from "../contract/error-words.ts";
import { codeOf, detailOf, type ErrorCode, MillraceError, messageOf } from "../contract/errors.ts";
import { formatEntryKey } from "../contract/ids.ts";
import { labelOf } from "../contract/step-names.ts";
import { beginning } from "../contract/text.ts";
import { framesOf } from "../contract/told-error.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { SKIPPED } from "../store/inbox/outcome.ts";

/**
 * Status of an effect without a record, after the step failed. `refused`: the upstream refused the effect, so the effect did not happen.
 * `unknown`: the effect may have happened. `undoable`: the effect may have happened, and the step's code has an undo handler.
 */
export type Unrecorded = "refused" | "unknown" | "undoable";

/** The reason why a step, and therefore its instance, failed. Operators see this reason. */
export const ShownFailure = z
  .object({
    step: z.string().meta({ description: "The step name of the platform; empty if the workflow code threw between steps." }),
    code: z.string(),
    message: z.string(),
    attempts: z.int(),
    behind: z.string().optional().meta({ description: "The last step that failed before the workflow code threw between steps." }),
    at: z
      .string()
      .optional()
      .meta({ description: "The step that the workflow code called when it threw between steps, and that did not start." }),
    where: z
      .string()
      .optional()
      .meta({ description: "The first frame of the stack, with file and line, if the workflow code threw between steps." }),
    upstream_status: z.int().optional(),
    hint: z.string().optional().meta({
      description: "A likely cause and the next step: for example, the code cannot use an output that an operator confirmed.",
    }),
  })
  .meta({ id: "Failure" });

/** A failure in its stored form. */
export interface Failure extends z.infer<typeof ShownFailure> {
  code: ErrorCode;
  /** Status of the step's effect. `none`: the step has no effect, or has a recorded effect. Undefined if the status is not known. */
  effect?: Unrecorded | "none" | undefined;
  /** The output of an effect that happened, although its rows and messages were refused. */
  answered?: Answered | undefined;
}

/** The output as JSON, or the reference of the output in R2. Both fields are null for a step without an output. */
export interface Answered {
  readonly output: string | null;
  readonly outputRef: string | null;
}

/**
 * Converts an error of a statement that the database always refuses to `config_invalid`, with advice. A retry cannot fix such an error.
 * Returns any other error unchanged.
 */
export function asWrongStatement(error: unknown): unknown {
  if (codeOf(error) !== undefined) return error;
  const message = messageOf(error);
  const [, wrong] = WRONG.exec(message) ?? REFUSED.exec(message) ?? [];
  const refused = TRANSACTION.test(message) ? ONE_TRANSACTION : wrong === "not authorized" ? NOT_FOR_WORKERS : wrong;
  if (refused)
    return new MillraceError(
      "config_invalid",
      `The database refuses the statement: ${refused}. Fix the statement, deploy it, then retry the instance.`,
    );
  const [, what, name, table, column] = MISSING.exec(message) ?? [];
  const missing = what ? `${what} "${name}"` : table && `column "${column}" in the table "${table}"`;
  if (!missing) return error;
  const said = `The database has no ${missing}. Check the spelling, or apply the migration that creates it, then retry the instance.`;
  return new MillraceError("config_invalid", said);
}

const MISSING =
  /^(?:D1_ERROR: )?(?:no such (table|column|index): (\S+?)|table (\S+) has no column named (\S+?))(?: at offset \d+)?(?:: SQLITE_ERROR)?$/;

/** SQLite's messages for statements that SQLite cannot prepare, independent of the content of the tables. */
const WRONG = new RegExp(
  `^(?:D1_ERROR: )?(${[
    'near ".*?": syntax error',
    "incomplete input",
    "unrecognized token: .*?",
    "(?:no such function|no such collation sequence|ambiguous column name|no such module): \\S+?",
    "(?:too many SQL variables|variable number must be between|parser stack overflow|Expression tree is too large).*?",
    "(?:too many (?:columns|terms|FROM clause terms)|at most \\d+ tables in a join).*?",
    "wrong number of arguments to function .*?",
    "(?:misuse of (?:aggregate|window) function|misuse of aggregate:|not authorized to use function:) .*?",
    "table \\S+ has \\d+ columns? but \\d+ values were supplied",
    "\\d+ values for \\d+ columns",
    "all VALUES must have the same number of terms",
    "SELECTs to the left and right of .*? do not have the same number of result columns",
    "sub-select returns \\d+ columns - expected \\d+",
    "row value misused",
    "ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint",
    "(?:string or blob|statement) too (?:big|long)",
  ].join("|")})(?: at offset \\d+)?(?:: SQLITE_(?:ERROR|RANGE|TOOBIG|AUTH))?$`,
  "s",
);

/**
 * Further messages of SQLite for wrong statements. An upstream's error may have the same text, so the message must end with SQLite's error
 * code.
 */
const REFUSED = new RegExp(
  `^(?:D1_ERROR: )?(${[
    "not authorized",
    "datatype mismatch",
    "cannot VACUUM from within a transaction",
    "table \\S+ may not be (?:modified|dropped)",
    "object name reserved for internal use: .*?",
    "RAISE\\(\\) may only be used within a trigger-program",
    "\\d+\\w\\w (?:ORDER|GROUP) BY term (?:out of range|does not match) .*?",
    "(?:ORDER BY|LIMIT) clause should come .*?",
    "no tables specified",
    "HAVING clause on a non-aggregate query",
    "(?:circular reference|no such window): \\S+?",
    "DISTINCT aggregates must have exactly one argument",
    "(?:missing|unknown) datatype for .*?",
  ].join("|")})(?: at offset \\d+)?: SQLITE_(?:ERROR|AUTH|MISMATCH)$`,
  "s",
);

const TRANSACTION = /^(?:D1_ERROR: )?To execute a transaction, please use the state\.storage\.transaction\(\)/;
const ONE_TRANSACTION =
  "BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE are not for Workers. The statements of one commit are one transaction without them";
const NOT_FOR_WORKERS = "not authorized. PRAGMA, ATTACH, temporary tables and the like are not for Workers";

/** Describes an attempt's error for operators and the database. The error's message is truncated, and its stack and payload are omitted. */
export function describeFailure(step: string, attempts: number, error: unknown): Failure {
  const code = codeOf(error) ?? "step_failed";
  const where = step === "" && codeOf(error) === undefined ? thrownAt(error) : undefined;
  const { upstreamStatus, step: at } = detailOf(error);
  return {
    step,
    ...(step === "" && at !== undefined && { at }),
    ...(where !== undefined && { where }),
    code,
    message: beginning(messageOf(error), 1000),
    attempts,
    ...(upstreamStatus !== undefined && { upstream_status: upstreamStatus }),
  };
}

export function causeOfFailure(workflow: string, { step, code, message }: Failure): string {
  return causeId({ place: workflow, step, code, message });
}

function thrownAt(error: unknown): string | undefined {
  try {
    if (!(error instanceof Error)) return undefined;
    const frames = framesOf(error).map((line) => FRAME.exec(line));
    const [, frame] = frames.find((found) => found && !NOT_THE_AUTHORS.test(found[0])) ?? [];
    return frame && beginning(frame.replace("file://", ""), 300);
  } catch {
    return undefined;
  }
}

const FRAME = /^\s+at (.+:\d+:\d+\)?)$/;
const NOT_THE_AUTHORS = /\/node_modules\/|\/engine\/(?:guard|replay|workflow)\/|\(?(?:node|cloudflare|native):/;

interface Failed {
  readonly error: unknown;
  readonly last: boolean;
  readonly failure: Failure;
}

/** The failed attempts of one replay, and the step of each error that the workflow's code receives. */
export class Failures {
  readonly #attempts = new Map<string, Failed>();
  readonly #heard = new Map<unknown, string>();
  readonly #unclear = new Set<string>();
  #trouble = false;

  /** Records a failed attempt. `last` is true if the platform will not retry the step. */
  note(label: string, attempt: number, error: unknown, last: boolean): void {
    this.#attempts.set(label, { error, last, failure: describeFailure(label, attempt, error) });
  }

  /** Records an attempt with an unknown outcome. The outcome remains unknown even if the upstream refuses a later attempt. */
  noteUnclear(label: string): void {
    this.#unclear.add(label);
  }

  isUnclear(label: string): boolean {
    return this.#unclear.has(label);
  }

  noteEnd(label: string, error: unknown): void {
    this.note(label, 1, error, true);
    this.#heard.set(error, label);
  }

  noteRejected(label: string, error: unknown): void {
    this.#trouble = true;
    this.#heard.set(error, label);
  }

  get hasRejected(): boolean {
    return this.#trouble;
  }

  /** The error of a step's last attempt in this replay. The error may request the delay before the next attempt. */
  lastOf(label: string): unknown {
    return this.#attempts.get(label)?.error;
  }

  /**
   * The failure that ended the run. If the thrown error, or a `cause` of the thrown error, is a step's error, the result is the failure of
   * this step. If the errors of several steps match, the result is the failure that is last in `heard`, the order in which the code
   * received failures. Any other error is a failure of the workflow's code. The result is undefined if the platform stopped retrying the
   * step before the code's limit of attempts, because a deployment may have raised this limit. Then the keeper polls the platform.
   */
  reasonFor(error: unknown, heard: readonly string[] = []): Failure | undefined {
    const causes = causesOf(error).filter((cause) => this.#heard.has(cause));
    const turn = (cause: unknown) => heard.indexOf(this.#heard.get(cause) ?? "");
    const own = causes.reduce<unknown>((last, cause) => (last === undefined || turn(cause) > turn(last) ? cause : last), undefined);
    const label = this.#heard.get(own);
    if (label === undefined) return describeFailure("", 1, error);
    const seen = this.#attempts.get(label);
    if (!seen?.last) return undefined;
    if (own === error) return seen.failure;
    const { message } = seen.failure;
    const beside = messageBeside(error, message);
    return beside === ""
      ? seen.failure
      : { ...seen.failure, message: beginning(`${beforeWords(beside, message.length + 3)} (${message})`, 1000) };
  }
}

function causesOf(error: unknown): readonly unknown[] {
  const causes = new Set<unknown>([error]);
  for (const one of causes) for (const cause of saidBy(one)) if (causes.size < MAX_CAUSES) causes.add(cause);
  return [...causes];
}

/** The causes of an error. If reading an error of the app throws, the result has no causes. */
function saidBy(error: unknown): readonly unknown[] {
  try {
    if (!(error instanceof Error)) return [];
    return error instanceof AggregateError ? [...error.errors] : [error.cause];
  } catch {
    return [];
  }
}

const MAX_CAUSES = 20;

interface Passed {
  readonly instanceId: string;
  readonly inbox: { readonly seen: readonly Seen[] };
  readonly stepOrder: { hasSettled(label: string, failed: boolean): boolean };
}

/**
 * Adds a hint to a failure of the workflow's code. The hint says that the output that an operator confirmed last may be the reason, and
 * that a retry keeps this output.
 */
export function withConfirmed(failure: Failure, { instanceId, inbox: { seen }, stepOrder }: Passed): Failure {
  const [last] = seen.filter((entry) => isConfirmed(entry, stepOrder)).toSorted((one, other) => other.updated_at - one.updated_at);
  if (last === undefined || (failure.step !== "" && !BY_ITSELF.has(failure.code))) return failure;
  const confirm = `POST /v1/effects/${formatEntryKey({ ...last, instanceId })}/confirm`;
  const which = `the output that an operator ${last.token === SKIPPED ? "gave" : "confirmed"} for "${labelOf(last.step, last.item)}"`;
  return {
    ...failure,
    hint: `The run used ${which}, and a retry keeps it: if it is wrong, confirm the correct output (${confirm}), then retry.`,
  };
}

/** Codes of failures that no upstream caused. */
const BY_ITSELF: ReadonlySet<string> = new Set(["config_invalid", "step_failed"]);

/**
 * True for a step whose output an operator gave by a confirmation or by a skip. This replay may have recorded the output of a skip itself.
 */
function isConfirmed({ token, state, position, step, item }: Seen, stepOrder: Passed["stepOrder"]): boolean {
  if (position < 0) return false;
  if (token === SKIPPED) return state === "done" || (state === "failed" && stepOrder.hasSettled(labelOf(step, item), false));
  return token === "operator" && (state === "confirmed" || state === "done");
}
