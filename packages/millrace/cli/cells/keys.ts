import type { Databases, Row } from "./databases.ts";
import { chunksOf } from "./tables.ts";

/** A table of digests. Its rows contain no tenant. `values`: the columns that are not binary. `at`: the time of a row. */
interface Keys {
  readonly table: string;
  readonly binary: readonly string[];
  readonly values: readonly string[];
  readonly at: string;
  readonly onConflict: string;
}

const KEYS: readonly Keys[] = [
  {
    table: "millrace_tombstones",
    binary: ["id", "fingerprint"],
    values: ["place"],
    at: "abs(place)",
    onConflict: "DO NOTHING",
  },
  {
    table: "millrace_stated_events",
    binary: ["id", "fingerprint", "said"],
    values: ["correlation_id", "stated_at"],
    at: "stated_at",
    onConflict: "DO NOTHING",
  },
  {
    table: "millrace_sequences",
    binary: ["id"],
    values: ["last", "before", "missing", "moved_at"],
    at: "moved_at",
    onConflict: `(id) DO UPDATE SET last = excluded.last, before = excluded.before, missing = excluded.missing,
      moved_at = excluded.moved_at WHERE excluded.last > millrace_sequences.last`,
  },
];

const PAGE_ROWS = 2000;

/**
 * Copies the keys that a cell has stored since a time: of removed instances, of events and of ordered streams. They contain no tenant, so
 * that the keys of all tenants are copied. Only these keys prevent that a repeat runs again in the new cell.
 */
export async function copyKeys(run: Databases, from: number, to: number, since: number): Promise<number> {
  let copied = 0;
  for (const { table, binary, values, at, onConflict } of KEYS) {
    const columns = [...binary.map((column) => `hex(${column}) AS ${column}`), ...values].join(", ");
    const given = [...binary.map((column) => `unhex(value->>'$.${column}')`), ...values.map((column) => `value->>'$.${column}'`)].join(
      ", ",
    );
    const write = `INSERT INTO ${table} (${[...binary, ...values].join(", ")}) SELECT ${given} FROM json_each(?1) WHERE true
      ON CONFLICT ${onConflict}`;
    for (let after: Row["id"] = ""; ; ) {
      const text = `SELECT ${columns} FROM ${table} WHERE id > unhex(?1) AND ${at} >= ${since} ORDER BY ${table}.id LIMIT ${PAGE_ROWS}`;
      const [rows = []]: Row[][] = await run(from, [{ text, params: [after] }]);
      for (const chunk of chunksOf(rows)) await run(to, [{ text: write, params: [chunk] }]);
      copied += rows.length;
      if (rows.length < PAGE_ROWS) break;
      after = rows.at(-1)?.id;
    }
  }
  return copied;
}

export async function countKeys(run: Databases, cell: number): Promise<number> {
  let count = 0;
  for (const { table } of KEYS) {
    const [[row] = []] = await run(cell, [{ text: `SELECT count(*) AS n FROM ${table}`, params: [] }]);
    count += Number(row?.n);
  }
  return count;
}
