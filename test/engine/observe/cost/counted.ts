import { env } from "cloudflare:workers";
import { describeInstance, historyOf } from "millrace/operate";
import { onTestFinished } from "vitest";
import { until } from "../../../until.ts";
import { operator, probeEnv, rows } from "../../harness.ts";

/** The keeper's writes about checked instances, and about alerts that name them, are its own, and no run's. */
const KEEPERS =
  /^\s*UPDATE millrace_instances SET check_at = CAST\(unixepoch\('subsec'\) \* 1000 AS INTEGER\)( \+ \(l\.value|\s+WHERE)|(INTO|UPDATE|DELETE FROM) millrace_(tallies|counts|alerts)/;

/** The keys of a row: later writes of a row of theirs are theirs, too. */
const IDS = /[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}/g;

/** Counts D1's written rows from now to the end of the test: by names, or by kinds of statements; and all that it read. */
export function countRows(): { written: (...names: readonly string[]) => number; of: (statements: RegExp) => number; read: () => number } {
  const proto = Object.getPrototypeOf(env.DB) as D1Database;
  const own = proto.batch;
  const written: { statement: string; values: string; rows: number }[] = [];
  let read = 0;
  proto.batch = async function batch(this: D1Database, statements: D1PreparedStatement[]) {
    const results = await own.call(this, statements);
    for (const [index, { meta }] of results.entries()) {
      const { statement, params } = statements[index] as unknown as { statement: string; params: unknown[] };
      written.push({ statement, values: JSON.stringify(params), rows: meta.rows_written ?? 0 });
      read += meta.rows_read ?? 0;
    }
    return results;
  } as typeof own;
  onTestFinished(() => {
    proto.batch = own;
  });
  const sum = (meant: typeof written) => meant.reduce((total, { rows: one }) => total + one, 0);
  return {
    // Keepers and leftovers of other tests run beside them.
    written: (...names) => {
      const known = new Set(names);
      const own = written.filter(({ statement, values }) => {
        if (KEEPERS.test(statement) || ![...known].some((name) => values.includes(name))) return false;
        for (const [id] of values.matchAll(IDS)) known.add(id);
        return true;
      });
      return sum(own);
    },
    read: () => read,
    of: (statements) => sum(written.filter(({ statement }) => statements.test(statement))),
  };
}

/** A job's instances, once all have ended and no message is in transit. */
export async function endedJob(correlationId: string): Promise<string[]> {
  // In one statement: messages may be written between two.
  const open = `SELECT
    (SELECT count(*) FROM millrace_instances WHERE correlation_id = ?1 AND status NOT IN ('complete', 'errored', 'terminated', 'in_doubt'))
    + (SELECT count(*) FROM millrace_outbox WHERE instr(body, ?1) > 0) AS open`;
  await until(
    () => rows<{ open: number }>(open, correlationId),
    ([found]) => found?.open === 0,
  );
  return (await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE correlation_id = ?1 ORDER BY rowid", correlationId)).map(
    ({ id }) => id,
  );
}

/** The views of instances, and the platform's steps. */
export async function shownOf(ids: readonly string[]) {
  const shown = await Promise.all(ids.map((id) => describeInstance(probeEnv, operator, id)));
  const steps = await Promise.all(shown.map((one) => historyOf(probeEnv, one)));
  const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
  return {
    rows: sum(shown.map(({ cost }) => cost.parts.rowsWritten.amount)),
    steps: sum(shown.map(({ cost }) => cost.parts.steps.amount)),
    onPlatform: sum(steps.map((one) => one.steps.length)),
    marks: [...new Set(shown.flatMap(({ cost: { parts } }) => [parts.steps.mark, parts.rowsWritten.mark]))],
    costs: shown.map(({ cost }) => cost),
  };
}
