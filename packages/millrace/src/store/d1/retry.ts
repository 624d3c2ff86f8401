import pRetry from "p-retry";
import { MillraceError } from "../../contract/errors.ts";
import type { RowStatement, Statement } from "../../contract/sql.ts";
import { within } from "../../contract/within.ts";
import { bindable, withIntegers } from "./bindable.ts";
import { asUnavailable, isTransient } from "./trouble.ts";

/** Time limit of one D1 batch in milliseconds, so that a hanging call does not block its callers. D1's own limit for a query is 30 s. */
const ANSWER_WITHIN_MS = 35_000;

/**
 * Runs a D1 call, and retries it after a failure that a repeat within a second may fix. The call must be idempotent. Every statement of the
 * engine is idempotent, because each statement selects its row by key and has a fence. Errors: `unavailable` with a delay for platform
 * failures; D1's own error otherwise.
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
  const said = `The database did not answer within ${withinMs} ms. The outcome of the write is unknown: repeat the request.`;
  return new MillraceError("unavailable", said, { delayMs: 1000 });
}

export type Row = Record<string, unknown>;

/**
 * The result of one statement in a batch, and the count of rows that the statement wrote. As in D1's billing, the count of written rows
 * includes index rows.
 */
interface Answered {
  readonly rows: Row[];
  readonly rowsWritten: number;
}

/**
 * Runs statements as one atomic batch and returns the rows of each. Errors: `payload_too_large` for a value that D1 accepts only locally.
 */
export async function atomically(
  db: D1Database,
  statements: readonly (Statement | RowStatement)[],
  withinMs: number = ANSWER_WITHIN_MS,
): Promise<Row[][]> {
  return (await atomicallyCounted(db, statements, withinMs)).map(({ rows }) => rows);
}

/** Runs statements like `atomically`, and also returns the count of rows that each statement wrote. */
export async function atomicallyCounted(
  db: D1Database,
  statements: readonly (Statement | RowStatement)[],
  withinMs: number = ANSWER_WITHIN_MS,
): Promise<Answered[]> {
  if (statements.length === 0) return [];
  const prepared = statements.map(bindable).map(({ text, params, row }) => withIntegers(text, row === undefined ? params : [`[${row}]`]));
  const results = await withD1Retry(() => db.batch<Row>(prepared.map(({ text, params }) => db.prepare(text).bind(...params))), withinMs);
  // Results are matched to statements by position. With a wrong number of results, callers would get the results of other statements.
  if (results.length !== prepared.length) {
    const said = `The database gave ${results.length} answers to ${prepared.length} statements. Please report this, with the statements.`;
    throw new MillraceError("invariant", said);
  }
  return results.map(({ results: rows, meta }) => ({ rows, rowsWritten: meta.rows_written ?? 0 }));
}

/** Runs one statement and returns its rows with the type `T`. The column list of the statement must match the type of the returned rows. */
export async function query<T extends object = Row>(db: D1Database, statement: Statement): Promise<T[]> {
  const [rows = []] = await atomically(db, [statement]);
  return rows as T[];
}

/** The value of `meta.served_by` if the database runs in wrangler or in a test. In production the value names a server of D1. */
const LOCAL_SERVER = "miniflare.db";

/** True if the database runs locally. If the database runs locally, the whole platform runs locally too. */
export async function isLocal(db: D1Database): Promise<boolean> {
  const { meta } = await within(db.prepare("SELECT 1").run());
  return meta.served_by === LOCAL_SERVER;
}
