/** What each migration makes: a table, an index, or `table.column`. One of them is enough to find that a migration is not applied. */
export type Schema = Readonly<Record<string, string>>;

/** The migrations of the engine, each with the last table, index or column that it makes: a migration can stop half-way. */
export const ENGINE_SCHEMA: Schema = { "0001_millrace": "millrace_waits_open" };

/** A row of `sqlite_master`. */
export interface SchemaRow {
  name: string;
  sql: string | null;
}

/** The first migration whose table, index or column is not among these rows. */
export function notApplied(schema: Schema, rows: readonly SchemaRow[]): { migration: string; lacks: string } | undefined {
  const found = new Map(rows.map(({ name, sql }) => [name, sql ?? ""]));
  for (const [migration, lacks] of Object.entries(schema).toSorted()) {
    const [name = "", column] = lacks.split(".");
    const sql = found.get(name);
    if (sql === undefined || (column !== undefined && !new RegExp(`\\b${column}\\b`).test(sql))) return { migration, lacks };
  }
  return undefined;
}
