import type { EngineEnv } from "./bindings.ts";
import { MillraceError, messageOf } from "./errors.ts";
import { logLine } from "./log-line.ts";
import { within } from "./within.ts";

// A cell is a database with recorders and a keeper. A tenant lives in one cell. Code gets the cell of its tenant as an env, in which `DB` is
// the database of the cell. The first cell has the binding DB and is the Worker's own env. The other cells have the bindings DB_2, DB_3, …

const MAX_CELLS = 999;

const firsts = new WeakMap<object, object>();
const derived = new WeakMap<object, Map<number, object>>();

/** The number of cells of a deployment, from the variable `CELLS`; 1 if it is not set. Errors: `config_invalid`. */
export function cellCount(env: object): number {
  const { CELLS } = env as Partial<EngineEnv>;
  if (CELLS === undefined) return 1;
  const count = Number(CELLS);
  if (Number.isInteger(count) && count >= 1 && count <= MAX_CELLS) return count;
  throw new MillraceError("config_invalid", `CELLS must be a whole number from 1 to ${MAX_CELLS}, not "${CELLS}".`);
}

/** The cells that get new tenants: those in the variable `CELLS_OPEN`, separated by commas; all cells if it is not set. */
export function openCells(env: object): number[] {
  const { CELLS_OPEN } = env as Partial<EngineEnv>;
  const all = Array.from({ length: cellCount(env) }, (_, index) => index + 1);
  if (CELLS_OPEN === undefined) return all;
  const open = String(CELLS_OPEN).split(",").map(Number);
  if (open.every((cell) => all.includes(cell))) return open;
  throw new MillraceError("config_invalid", `CELLS_OPEN must contain numbers of cells from 1 to ${all.length}, not "${CELLS_OPEN}".`);
}

/** The env of a cell, by default of the first cell, from the env of any cell. Errors: `config_invalid` for a cell without a database. */
export function inCell<Env extends object>(env: Env, cell = 1): Env {
  const first = (firsts.get(env) ?? env) as Env;
  if (cell === 1) return first;
  const made = derived.get(first) ?? new Map<number, object>();
  const known = made.get(cell) as Env | undefined;
  if (known !== undefined) return known;
  const binding = `DB_${cell}`;
  const DB = (first as Record<string, unknown>)[binding];
  if (DB === undefined) {
    const line = `{ "binding": "${binding}", "database_name": "<the Worker's name>-${cell}" }`;
    throw new MillraceError(
      "config_invalid",
      `The cell ${cell} has no database. Add this line to "d1_databases" in wrangler.jsonc: ${line}`,
    );
  }
  const own = { ...first, DB, CELL: cell };
  firsts.set(own, first);
  derived.set(first, made.set(cell, own));
  return own;
}

/** The env of the cell with a number that a caller has sent; undefined if the deployment has no such cell. */
export function cellNamed<Env extends object>(env: Env, cell: number): Env | undefined {
  return cell >= 1 && cell <= cellCount(env) ? inCell(env, cell) : undefined;
}

/** The envs of all cells, the first cell first. */
export function cellsOf<Env extends object>(env: Env): Env[] {
  const first = inCell(env);
  return Array.from({ length: cellCount(first) }, (_, index) => inCell(first, index + 1));
}

/**
 * Reads all cells at the same time. Returns the results of the cells that answered, in the order of the cells, and the numbers of the
 * others. The log has the error of each cell that failed or did not answer in time. Errors: the first cell's error if all cells failed.
 */
export async function readCells<Env extends object, T>(
  env: Env,
  read: (cell: Env) => Promise<T>,
): Promise<{ found: T[]; failed: number[] }> {
  const cells = cellsOf(env);
  if (cells.length === 1) return { found: [await read(inCell(env))], failed: [] };
  const results = await Promise.allSettled(cells.map((cell) => within(read(cell))));
  const found = results.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const errors = results.flatMap((one, at) => (one.status === "rejected" ? [{ cell: at + 1, reason: one.reason as unknown }] : []));
  for (const { cell, reason } of errors) logLine("error", { log: "cell_unavailable", cell, error: messageOf(reason) });
  if (found.length === 0) throw errors[0]?.reason;
  return { found, failed: errors.map(({ cell }) => cell) };
}

/** The name of a cell's object. The name contains the cell, except for the first cell. */
export function objectOfCell(env: object, name: string): string {
  const { CELL } = env as Partial<EngineEnv>;
  return CELL === undefined ? name : `${CELL}/${name}`;
}

/** The cell of an object, from the object's name. */
export function cellOfObject(name: string | undefined): number {
  return Number(/^(\d+)\//.exec(name ?? "")?.[1] ?? 1);
}
