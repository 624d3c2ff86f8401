import type { EngineEnv } from "../contract/bindings.ts";
import { codeOf, MillraceError } from "../contract/errors.ts";
import { rowChunks, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { selectObjectOf } from "../store/tombstones.ts";
import { ARCHIVED_TABLES, type ArchivedRows, type ArchivedTable, objectName, rowsIn } from "./object.ts";

type Env = Pick<EngineEnv, "DB" | "PAYLOADS">;

/** An archived instance. */
export interface Archived<E> {
  /** An env whose database returns the rows of this instance, so that the statements for instances in the database read it. */
  readonly env: E;
  /** The time of the move, in milliseconds since 1970. */
  readonly archivedAt: number;
  readonly rows: ArchivedRows;
}

/** Finds a tenant's instance in R2; undefined for an instance that is not archived. Reads R2 only for an id with an archive's tombstone. */
export async function findArchived<E extends Env>(
  env: E,
  { tenantId }: Pick<Operator, "tenantId">,
  id: string,
): Promise<Archived<E> | undefined> {
  const [row] = await query<{ object: number }>(env.DB, selectObjectOf(id));
  if (row === undefined) return undefined;
  const name = objectName(tenantId, row.object);
  const [rows, columns] = await Promise.all([rowsIn(env.PAYLOADS, name, id), query<Column>(env.DB, COLUMNS)]);
  if (rows === undefined) return undefined;
  const DB = withRows(env.DB, rows, columns);
  return { env: Object.create(env, { DB: { value: DB } }) as E, archivedAt: row.object, rows };
}

/**
 * Runs reads of an instance. If the database does not contain the instance and R2 does, the reads run again with the archived rows. Errors:
 * those of the reads.
 */
export async function orArchived<E extends Env, T>(
  env: E,
  by: Pick<Operator, "tenantId">,
  id: string,
  read: (env: E, archivedAt: number | null) => Promise<T>,
): Promise<T> {
  try {
    return await read(env, null);
  } catch (error) {
    const found = codeOf(error) === "instance_not_found" ? await findArchived(env, by, id) : undefined;
    if (found === undefined) throw error;
    return read(found.env, found.archivedAt);
  }
}

/**
 * Throws the error of a read, or the refusal of an act on an archived instance, its effect or its question. Errors: `invalid_transition` for
 * an archived instance.
 */
export async function refuseArchived(env: Env, by: Pick<Operator, "tenantId">, id: string, error: unknown): Promise<never> {
  if (!codeOf(error)?.endsWith("_not_found") || (await findArchived(env, by, id)) === undefined) throw error;
  const said =
    "The instance is archived: it can be read, and no longer changed. To do its work again, send a new command with another key.";
  throw new MillraceError("invalid_transition", said);
}

interface Column {
  readonly table: ArchivedTable;
  readonly name: string;
}

/** Selects the columns of the tables at present. Older rows may lack some columns, which are then NULL. */
const COLUMNS = sql`
  SELECT t.value AS "table", c.name FROM json_each(${JSON.stringify(ARCHIVED_TABLES)}) t CROSS JOIN pragma_table_info(t.value) c`;

/**
 * A database that reads the given rows instead of the tables of the same names. Each statement gets a common table expression for each
 * table that its text names, because the name of such an expression hides a table. The `rowid` is 0: an ended instance waits in no queue.
 */
function withRows(db: D1Database, rows: ArchivedRows, columns: readonly Column[]): D1Database {
  const prepare = (text: string) => ({
    bind(...params: unknown[]) {
      const values = [...params];
      const hidden = ARCHIVED_TABLES.filter((table) => text.includes(table)).map((table) => {
        const chunks = rowChunks(rows[table]);
        // D1 refuses more than five SELECTs in a UNION, and has no such limit for VALUES.
        const lists = (chunks.length === 0 ? ["[]"] : chunks).map((chunk) => `(?${values.push(chunk)})`);
        const fields = columns.flatMap((one) => (one.table === table ? `value->>'${one.name}' AS "${one.name}"` : []));
        return `${table} AS (SELECT 0 AS rowid, ${fields.join()} FROM (VALUES ${lists.join()}) CROSS JOIN json_each(column1))`;
      });
      const [, words = "", statement = text] = /^\s*(WITH(?: RECURSIVE)?\s)?([\s\S]*)$/i.exec(text) ?? [];
      const first = words === "" ? ["WITH ", hidden.join(", "), " "] : [words, hidden.join(", "), ", "];
      return db.prepare(hidden.length === 0 ? text : first.join("") + statement).bind(...values);
    },
  });
  const batch = (statements: D1PreparedStatement[]) => db.batch(statements);
  return { prepare, batch } as unknown as D1Database;
}
