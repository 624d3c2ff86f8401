import pRetry from "p-retry";
import { MillraceError, messageOf } from "../contract/errors.ts";
import type { RowStatement, Statement } from "../contract/sql.ts";

/** The platform's own words for a blip that a repeat may cure. D1's overload errors are not among them: those want less traffic, not more. */
const TRANSIENT =
  /Network connection lost|D1 DB reset|Internal error in D1 DB storage|Cannot resolve D1 DB due to transient issue|Can't read from request stream|SQLITE_BUSY|database is locked|Durable Object (reset|storage)|object to be reset|internal error/i;
const OVERLOADED = /overloaded|storage operation exceeded timeout|exceeded its memory limit|exceeded its CPU/i;

/** True for errors of the platform that a repeat may cure: the call may or may not have taken effect. */
export function isTransient(error: Error): boolean {
  return TRANSIENT.test(error.message) || ("retryable" in error && error.retryable === true);
}

/**
 * Runs a D1 call, repeating it over sub-second blips. The call must be safe to repeat: every statement of the engine is,
 * because it names its row and fences itself. Errors: `unavailable` when D1 asks for less traffic; D1's own error otherwise.
 */
async function withD1Retry<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await pRetry(call, {
      retries: 4,
      minTimeout: 40,
      maxTimeout: 600,
      randomize: true,
      shouldRetry: ({ error }) => isTransient(error),
    });
  } catch (error) {
    if (OVERLOADED.test(messageOf(error))) {
      throw new MillraceError("unavailable", "The database asks for less traffic. Try again in a few seconds.", {
        cause: error,
        delayMs: 5000,
      });
    }
    throw error;
  }
}

/** One row of an answer. */
export type Row = Record<string, unknown>;

/** Runs statements as one atomic batch, all of them or none, and answers each one's rows. */
export async function batch(db: D1Database, statements: readonly (Statement | RowStatement)[]): Promise<Row[][]> {
  if (statements.length === 0) return [];
  const params = (statement: Statement | RowStatement) => ("row" in statement ? [JSON.stringify([statement.row])] : statement.params);
  const results = await withD1Retry(() =>
    db.batch<Row>(statements.map((statement) => db.prepare(statement.text).bind(...params(statement)))),
  );
  return results.map((result) => result.results);
}

/** Runs one statement and answers its rows, read as `T`: the statement's own column list is the proof. */
export async function query<T extends object = Row>(db: D1Database, statement: Statement): Promise<T[]> {
  const [rows = []] = await batch(db, [statement]);
  return rows as T[];
}
