import pRetry from "p-retry";
import { MillraceError } from "../../contract/errors.ts";
import type { RowStatement, Statement } from "../../contract/sql.ts";
import { within } from "../../contract/within.ts";
import { bindable } from "./bindable.ts";
import { withIntegers } from "./one-statement.ts";
import { asUnavailable, isTransient } from "./trouble.ts";

/** How long D1 may take over one batch; its own limit for a query is 30 s. A call that never returns must not hold its callers for ever. */
const ANSWER_WITHIN_MS = 35_000;

/**
 * Runs a D1 call, repeating it over sub-second blips. The call must be safe to repeat: every statement of the engine is,
 * because it names its row and fences itself. Errors: `unavailable`, with a time to come back, when the trouble is the platform's; D1's own
 * error otherwise.
 */
async function withD1Retry<T>(call: () => Promise<T>, withinMs: number): Promise<T> {
  try {
    return await pRetry(() => within(call(), withinMs, () => late(withinMs)), {
      retries: 4,
      minTimeout: 40,
      maxTimeout: 600,
      randomize: true,
      shouldRetry: ({ error }) => isTransient(error),
    });
  } catch (error) {
    throw asUnavailable(error, "The database");
  }
}

function late(withinMs: number): MillraceError {
  const said = `The database did not answer within ${withinMs} ms. Whether it took the write is unknown: send the same again.`;
  return new MillraceError("unavailable", said, { delayMs: 1000 });
}

/** One row of an answer. */
export type Row = Record<string, unknown>;

/** What one statement of a batch answered, and how many rows it wrote as D1 bills them: those of indexes too. */
interface Answered {
  readonly rows: Row[];
  readonly rowsWritten: number;
}

/**
 * Runs statements as one atomic batch, all of them or none, and answers each one's rows. Errors: `payload_too_large` for a value that D1
 * takes only locally.
 */
export async function atomically(
  db: D1Database,
  statements: readonly (Statement | RowStatement)[],
  withinMs: number = ANSWER_WITHIN_MS,
): Promise<Row[][]> {
  return (await atomicallyCounted(db, statements, withinMs)).map(({ rows }) => rows);
}

/** The same, and how many rows each of them wrote. */
export async function atomicallyCounted(
  db: D1Database,
  statements: readonly (Statement | RowStatement)[],
  withinMs: number = ANSWER_WITHIN_MS,
): Promise<Answered[]> {
  if (statements.length === 0) return [];
  const prepared = statements.map(bindable).map(({ text, params, row }) => withIntegers(text, row === undefined ? params : [`[${row}]`]));
  const results = await withD1Retry(() => db.batch<Row>(prepared.map(({ text, params }) => db.prepare(text).bind(...params))), withinMs);
  // Answers are read by their place: one too many or too few, and somebody would read another's.
  if (results.length !== prepared.length) {
    const said = `The database gave ${results.length} answers to ${prepared.length} statements. Please report this, with the statements.`;
    throw new MillraceError("invariant", said);
  }
  return results.map(({ results: rows, meta }) => ({ rows, rowsWritten: meta.rows_written ?? 0 }));
}

/** Runs one statement and answers its rows, read as `T`: the statement's own column list is the proof. */
export async function query<T extends object = Row>(db: D1Database, statement: Statement): Promise<T[]> {
  const [rows = []] = await atomically(db, [statement]);
  return rows as T[];
}
