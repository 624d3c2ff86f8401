import { auditOpened } from "../../src/store/audit-opened.ts";
import { isMarked } from "../../src/store/moved.ts";
import { Refusal } from "../command.ts";
import type { Databases, Row } from "./databases.ts";

/** A table with rows of tenants: its columns, and the columns of its primary key. */
export interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  readonly key: readonly string[];
  /** The columns by which the rows of a tenant are read. An index begins with the tenant and these columns. */
  readonly order: readonly string[];
}

/** Tables with rows of tenants that do not move: triggers write them, or they are about cells. Sign-in codes end with the move. */
const STAY = ["millrace_cells", "millrace_moved", "millrace_causes", "millrace_tags", "millrace_sign_in_codes"];

/** The tables of an instance's rows, which move with their instance. */
const OF_INSTANCE = ["millrace_inbox", "millrace_waits", "millrace_approvals"];

/** The order of rows in large tables with a primary key that does not begin with the tenant. */
const ORDERS: Readonly<Record<string, readonly string[]>> = {
  millrace_instances: ["accepted_at", "id"],
  millrace_actions: ["at", "id"],
  millrace_dead_letters: ["state", "captured_at", "id"],
  millrace_signals: ["type", "subject", "received_at", "id"],
  millrace_tokens: ["created_at", "id"],
  millrace_bulk_actions: ["created_at", "id"],
  millrace_divergences: ["state", "first_at", "what", "kind"],
};

/** The tables of a cell with rows of tenants, and the tables with rows of instances. The tables of the app have a column `tenant_id`. */
export async function tablesIn(run: Databases, cell: number): Promise<{ ofTenants: Table[]; ofInstances: Table[] }> {
  const text = `SELECT m.name AS "table", c.name, c.pk FROM sqlite_master m, pragma_table_info(m.name) c
    WHERE m.type = 'table' AND m.name NOT GLOB '_cf_*' AND m.name NOT GLOB 'sqlite_*' ORDER BY m.name, c.cid`;
  const [columns = []] = await run(cell, [{ text, params: [] }]);
  const all = [...Map.groupBy(columns, ({ table }) => String(table))];
  const isKeyless = ([, rows]: (typeof all)[number]) => rows.some(({ name }) => name === "tenant_id") && rows.every(({ pk }) => pk === 0);
  const [keyless] = all.find(isKeyless) ?? [];
  if (keyless) throw new Refusal(`The table ${keyless} has a column tenant_id and no primary key, so that its rows cannot move.`);
  const tables = all.map(([name, rows]) => tableOf(name, rows));
  return {
    ofTenants: tables.filter(({ name, columns }) => columns.includes("tenant_id") && ![...STAY, ...OF_INSTANCE].includes(name)),
    ofInstances: tables.filter(({ name }) => OF_INSTANCE.includes(name)),
  };
}

function tableOf(name: string, rows: readonly Row[]): Table {
  const parts = rows.filter(({ pk }) => Number(pk) > 0).sort((a, b) => Number(a.pk) - Number(b.pk));
  const key = parts.map(({ name: column }) => String(column));
  return { name, columns: rows.map(({ name: column }) => String(column)), key, order: ORDERS[name] ?? key };
}

/** Rows of one page, and characters of the rows that one statement writes. */
const PAGE_ROWS = 50;
const MAX_CHARACTERS = 1_000_000;

/** The rows of a table for which the condition `where` holds, page by page. The condition is SQL with the given parameters from ?1. */
export async function* pagesOf(
  run: Databases,
  cell: number,
  { name, order }: Pick<Table, "name" | "order">,
  where: string,
  given: readonly (string | number)[],
): AsyncGenerator<Row[]> {
  let after = "true";
  let last: Row["x"][] = [];
  for (;;) {
    const text = `SELECT * FROM "${name}" WHERE ${where} AND ${after} ORDER BY ${listOf(order)} LIMIT ${PAGE_ROWS}`;
    const [rows = []] = await run(cell, [{ text, params: [...given, ...last] }]);
    if (rows.length > 0) yield rows;
    const end = rows.at(-1);
    if (end === undefined || rows.length < PAGE_ROWS) return;
    last = order.map((column) => end[column] ?? null);
    after = `(${listOf(order)}) > (${order.map((_, index) => `?${given.length + index + 1}`).join(", ")})`;
  }
}

/**
 * The state of a database that a write requires: the tenant has left (`filledBy` null), or the given move fills the database. Therefore the
 * late write of a process that was suspended changes nothing.
 */
export interface Guard {
  readonly tenant: string;
  readonly filledBy: number | null;
}

/** The condition of a guard. The parameter ?2 is the tenant. */
const guarded = ({ filledBy }: Guard) => isMarked("?2", filledBy);

/** Writes rows that the table does not have. */
export async function copyRows(run: Databases, cell: number, { name, columns }: Table, rows: readonly Row[], guard?: Guard): Promise<void> {
  const values = columns.map((column) => `value->>'$."${column}"'`).join(", ");
  const text = `INSERT INTO "${name}" (${listOf(columns)}) SELECT ${values} FROM json_each(?1) WHERE ${guard ? guarded(guard) : "true"}
    ON CONFLICT DO NOTHING`;
  for (const chunk of chunksOf(rows)) await run(cell, [{ text, params: guard ? [chunk, guard.tenant] : [chunk] }]);
}

/** The rows as JSON lists of bounded length. */
export function chunksOf(rows: readonly Row[]): string[] {
  const chunks: string[][] = [[]];
  let characters = 0;
  for (const row of rows.map((one) => JSON.stringify(one))) {
    if (characters > 0 && characters + row.length > MAX_CHARACTERS) {
      chunks.push([]);
      characters = 0;
    }
    chunks.at(-1)?.push(row);
    characters += row.length;
  }
  return chunks.filter(({ length }) => length > 0).map((chunk) => `[${chunk.join()}]`);
}

/** Deletes rows by their keys. Rows of the audit are deleted as its triggers require. */
export async function deleteRows(
  run: Databases,
  cell: number,
  { name, key }: Pick<Table, "name" | "key">,
  rows: readonly Row[],
  guard: Guard,
): Promise<void> {
  const keys = JSON.stringify(rows.map((row) => key.map((column) => row[column])));
  const values = key.map((_, index) => `value->>'$[${index}]'`).join(", ");
  const text = `DELETE FROM "${name}" WHERE (${listOf(key)}) IN (SELECT ${values} FROM json_each(?1)) AND ${guarded(guard)}`;
  const remove = { text, params: [keys, guard.tenant] };
  await run(cell, name === "millrace_actions" ? auditOpened([remove]) : [remove]);
}

const listOf = (columns: readonly string[]) => columns.map((column) => `"${column}"`).join(", ");
