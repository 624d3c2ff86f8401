import { env } from "cloudflare:workers";
import { instances } from "millrace/operate";
import { onTestFinished } from "vitest";
import { until } from "../../../until.ts";
import { operator, probeEnv, rows } from "../../harness.ts";

/** Rows that the keeper writes about checked instances and their alerts are not part of a run's cost. */
const KEEPERS =
  /^\s*UPDATE millrace_instances SET check_at = CAST\(unixepoch\('subsec'\) \* 1000 AS INTEGER\)( \+ \(l\.value|\s+WHERE)|(INTO|UPDATE|DELETE FROM) millrace_(tallies|counts|alerts)/;

/** Keys of the rows that runs wrote. A later write of a row with such a key is part of their cost, too. */
const IDS = /[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}/g;

/** Counts the rows that D1 writes until the test ends, by the names in them or by kind of statement, and all rows that D1 reads. */
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
    // Keepers and unfinished runs of other tests write at the same time.
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

/** Returns the instances of a job once all have ended and the outbox has no message of the job. */
export async function endedJob(correlationId: string): Promise<string[]> {
  // One statement reads both tables, because a message may be written between two statements.
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

/** The instances' views from the API, and the number of their steps on the platform. */
export async function shownOf(ids: readonly string[]) {
  const shown = await Promise.all(ids.map((id) => instances.describe(probeEnv, operator, id)));
  const steps = await Promise.all(shown.map((one) => instances.history(probeEnv, one)));
  const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
  return {
    rows: sum(shown.map(({ cost }) => cost.parts.rows_written.amount)),
    steps: sum(shown.map(({ cost }) => cost.parts.steps.amount)),
    onPlatform: sum(steps.map((one) => one.steps.length)),
    marks: [...new Set(shown.flatMap(({ cost: { parts } }) => [parts.steps.mark, parts.rows_written.mark]))],
    costs: shown.map(({ cost }) => cost),
  };
}
