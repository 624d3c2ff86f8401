/**
 * What each migration creates last: a table, an index, or `table.column`. One such name per migration is enough to detect a missing
 * migration.
 */
export type Schema = Readonly<Record<string, string>>;

/** The engine's migrations, each with the last table, index or column that it creates, because a migration can stop midway. */
export const ENGINE_SCHEMA: Schema = { "0001_millrace": "millrace_waits_open" };

/** A row of `sqlite_master`. */
export interface SchemaRow {
  name: string;
  sql: string | null;
}

/** Finds the first migration whose table, index or column is not among these rows. */
export function notApplied(schema: Schema, rows: readonly SchemaRow[]): { migration: string; lacks: string } | undefined {
  const found = new Map(rows.map(({ name, sql }) => [name, sql ?? ""]));
  for (const [migration, lacks] of Object.entries(schema).toSorted()) {
    const [name = "", column] = lacks.split(".");
    const sql = found.get(name);
    if (sql === undefined || (column !== undefined && !new RegExp(`\\b${column}\\b`).test(sql))) return { migration, lacks };
  }
  return undefined;
}
