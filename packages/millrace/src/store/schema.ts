/**
 * The table, index or `table.column` that each migration creates in its last statement. The name of one table, index or column per
 * migration is enough to detect a missing migration.
 */
export type Schema = Readonly<Record<string, string>>;

/**
 * The engine's migrations. Each migration is listed with the last table, index or column that it creates, because a migration can fail
 * before its end.
 */
export const ENGINE_SCHEMA: Schema = { "0001_millrace": "millrace_waits_open" };

/** A row of `sqlite_master`. */
export interface SchemaRow {
  name: string;
  sql: string | null;
}

/** Finds the first migration whose table, index or column is missing in these rows. */
export function notApplied(schema: Schema, rows: readonly SchemaRow[]): { migration: string; lacks: string } | undefined {
  const found = new Map(rows.map(({ name, sql }) => [name, sql ?? ""]));
  for (const [migration, lacks] of Object.entries(schema).toSorted()) {
    const [name = "", column] = lacks.split(".");
    const sql = found.get(name);
    if (sql === undefined || (column !== undefined && !new RegExp(`\\b${column}\\b`).test(sql))) return { migration, lacks };
  }
  return undefined;
}
