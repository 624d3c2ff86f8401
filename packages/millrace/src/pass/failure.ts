import * as z from "zod";
import { causeId } from "../contract/cause.ts";
import { codeOf, detailOf, type ErrorCode, MillraceError, messageOf } from "../contract/errors.ts";
import { framesOf } from "../contract/stack.ts";
import { beginning } from "../contract/text.ts";

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
const NOT_THE_AUTHORS = /\/node_modules\/|\/engine\/(?:guard|pass|workflow)\/|\(?(?:node|cloudflare|native):/;
