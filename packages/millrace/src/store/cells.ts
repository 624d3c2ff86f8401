import { cellCount, inCell, openCells, readCells } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { sha256 } from "../contract/ids.ts";
import { among, fragment, now, type Statement, sql } from "../contract/sql.ts";
import { atomically, query } from "./d1/retry.ts";
import { insertPause, type Pause, selectPausesOfAll } from "./pauses.ts";

/** How long an isolate caches the cell of a tenant, in milliseconds. A move waits longer than this time. */
const CACHED_MS = 60_000;
const MAX_CACHED = 10_000;

const cache = new Map<string, { cell: number; until: number }>();
/** The tenants that get no new commands, as of the last read. */
const closing = new Set<string>();
/** The numbers of the cells of databases, as compared with their bindings. */
const opened = new WeakMap<object, number>();
/** True if tenants live outside the first cell, which is the only cell of this version of the Worker. An isolate reads this once. */
let hasOthers: boolean | undefined;

interface Placed {
  tenant_id: string;
  cell: number;
  stage?: MoveStage | null;
}

export type MoveStage = "copying" | "closing" | "frozen" | "ready" | "clearing" | "cancelling";

/** True if all tenants live in the one cell of the deployment. False after `CELLS` was lowered to 1, and for a version before the cells. */
export async function isOneCell(env: object): Promise<boolean> {
  if (cellCount(env) > 1) return false;
  if (hasOthers === undefined && "DB" in env)
    hasOthers = await highestCell(env).then(
      (cell) => cell > 1,
      () => undefined,
    );
  return hasOthers !== true;
}

/** The highest number of a cell in which a tenant lives. */
export async function highestCell(env: object): Promise<number> {
  const [row] = await query<{ cell: number | null }>(databaseOf(inCell(env)), sql`SELECT max(cell) AS cell FROM millrace_cells`);
  return row?.cell ?? 1;
}

/**
 * The env of a cell. The first use of its database stores the cell's number in it, and the pauses of all tenants. Errors: `config_invalid`
 * for a binding of another cell's database, or of a database from elsewhere.
 */
export async function openCell<Env extends object>(env: Env, cell = 1): Promise<Env> {
  const own = inCell(env, cell);
  const DB = databaseOf(own);
  if (opened.get(DB) === cell || (cell === 1 && cellCount(env) === 1)) return own;
  const [found] = await query<{ cell: number | null; used: number }>(DB, selectNumber);
  if (!found?.cell && (cell === 1 || !found?.used)) {
    const pauses = cell === 1 ? [] : await query<Pause & Record<string, unknown>>(databaseOf(inCell(env)), selectPausesOfAll);
    await atomically(DB, [...pauses.map(insertPause), numberCell(cell)]);
  } else if (found?.cell !== cell) {
    const whose = found?.cell ? `is the database of the cell ${found.cell}` : "was not made for this cell, because it contains instances";
    throw new MillraceError("config_invalid", `The database bound as DB${cell === 1 ? "" : `_${cell}`} ${whose}: correct "d1_databases".`);
  }
  opened.set(DB, cell);
  return own;
}

const databaseOf = (env: object) => (env as { DB: D1Database }).DB;

/** Selects the number of a database's cell, and if the database contains instances. */
export const selectNumber: Statement = sql`
  SELECT (SELECT cell FROM millrace_cells WHERE tenant_id = '') AS cell, EXISTS (SELECT 1 FROM millrace_instances WHERE id > '') AS used`;

function numberCell(cell: number): Statement {
  return sql`INSERT INTO millrace_cells (tenant_id, cell) VALUES ('', ${cell}) ON CONFLICT (tenant_id) DO NOTHING`;
}

/**
 * The env of a tenant's cell. The first use of a tenant chooses its cell, which is stored in the first cell's database. With one cell, the
 * function returns the given env. Errors: `unavailable` if the database does not answer, or while the tenant's rows move to another cell;
 * `config_invalid` for a tenant of a cell that the deployment does not have.
 */
export async function cellOf<Env extends object>(env: Env, tenantId: string): Promise<Env> {
  if (await isOneCell(env)) return env;
  if (tenantId === "") return inCell(env);
  return (await cellsFor(env, [tenantId])).get(tenantId) as Env;
}

/** Like `cellOf`, for new commands and events. Errors: `unavailable` also while a move waits for the end of the tenant's instances. */
export async function acceptingCell<Env extends object>(env: Env, tenantId: string): Promise<Env> {
  const own = await cellOf(env, tenantId);
  if (closing.has(tenantId)) throw moving(tenantId);
  return own;
}

function moving(tenantId: string): MillraceError {
  return new MillraceError("unavailable", `The tenant ${tenantId} is moving to another cell: try again later.`, { delayMs: 30_000 });
}

/** The envs of several tenants' cells, by tenant, with at most two queries. Errors: as `cellOf`. */
export async function cellsFor<Env extends object>(env: Env, tenants: readonly string[]): Promise<Map<string, Env>> {
  const now = Date.now();
  const cells = new Map<string, number>();
  const unknown = [...new Set(tenants)].filter((tenant) => {
    const { cell, until } = cache.get(tenant) ?? { cell: 1, until: 0 };
    if (until > now) cells.set(tenant, cell);
    return until <= now;
  });
  if (unknown.length > 0) {
    const found = await placed(inCell(env), unknown);
    if (cache.size + found.length > MAX_CACHED) cache.clear();
    for (const { tenant_id, cell, stage = null } of found) {
      cache.delete(tenant_id);
      if (stage === "frozen" || stage === "ready") throw moving(tenant_id);
      if (stage === "closing") closing.add(tenant_id);
      else closing.delete(tenant_id);
      cells.set(tenant_id, cell);
      if (stage !== "closing") cache.set(tenant_id, { cell, until: now + CACHED_MS });
    }
  }
  const count = cellCount(env);
  for (const [tenant, cell] of cells)
    if (cell > count) throw new MillraceError("config_invalid", beyond(`The tenant ${tenant}`, cell, count));
  return new Map(await Promise.all([...cells].map(async ([tenant, cell]): Promise<[string, Env]> => [tenant, await openCell(env, cell)])));
}

/** The error text of a tenant in a cell above `CELLS`. */
export function beyond(who: string, cell: number, count: number): string {
  return `${who} lives in the cell ${cell}, but CELLS is ${count}. Set CELLS to at least ${cell}, and bind the databases of these cells.`;
}

async function placed(first: object, tenants: readonly string[]): Promise<Placed[]> {
  const { DB } = first as { DB: D1Database };
  const found = await query<Placed>(DB, selectCells(tenants));
  const known = new Set(found.map(({ tenant_id }) => tenant_id));
  const fresh = tenants.filter((tenant) => !known.has(tenant));
  if (fresh.length === 0) return found;
  const { found: traces } = await readCells(first as { DB: D1Database; CELL?: number }, ({ DB: own, CELL = 1 }) =>
    query<Placed & Record<string, unknown>>(own, selectTraces(fresh, CELL)),
  );
  const [, stored = []] = await atomically(DB, [placeTenants(fresh, first, traces.flat()), selectCells(fresh)]);
  return [...found, ...(stored as unknown as Placed[])];
}

/** The cell of a new tenant. The tenant of alerts belongs to the first cell, because the keeper of this cell sends the notices. */
function chosenCell(tenant: string, open: readonly number[], env: object): number {
  if (tenant === ((env as { ALERTS_TENANT?: string }).ALERTS_TENANT || "millrace")) return 1;
  return open[Number.parseInt(sha256(tenant).slice(0, 8), 16) % open.length] ?? 1;
}

export function selectCells(tenants: readonly string[]): Statement {
  return sql`SELECT tenant_id, cell, stage FROM millrace_cells WHERE tenant_id IN ${among(tenants)}`;
}

const HAS_TRACE = fragment(
  ["tokens", "instances", "actions", "schedules"]
    .map((table) => `EXISTS (SELECT 1 FROM millrace_${table} WHERE tenant_id = t.value->>'tenant_id')`)
    .join(" OR "),
);

/** Selects the tenants that have rows in the database of a cell and have not left the cell. */
function selectTraces(tenants: readonly string[], cell: number): Statement {
  return sql`
    SELECT t.value->>'tenant_id' AS tenant_id, ${cell} AS cell FROM json_each(${listOf(tenants)}) t
    WHERE (${HAS_TRACE}) AND NOT EXISTS (SELECT 1 FROM millrace_moved WHERE tenant_id = t.value->>'tenant_id')`;
}

/**
 * Stores the cells of new tenants. A tenant with a token, an instance, an action or a schedule in the first cell was used before the
 * deployment had several cells, and stays there. `traces`: the cells with rows of a tenant that a restored directory does not contain. A
 * stored cell remains unchanged.
 */
export function placeTenants(tenants: readonly string[], env: object, traces: readonly Placed[] = []): Statement {
  const open = openCells(env);
  const known = new Map(traces.map(({ tenant_id, cell }) => [tenant_id, cell]));
  const chosen = tenants.map((tenant): Placed => ({ tenant_id: tenant, cell: known.get(tenant) ?? chosenCell(tenant, open, env) }));
  return sql`
    INSERT INTO millrace_cells (tenant_id, cell) SELECT t.value->>'tenant_id', iif(${HAS_TRACE}, 1, t.value->>'cell')
    FROM json_each(${JSON.stringify(chosen)}) t WHERE true ON CONFLICT (tenant_id) DO NOTHING`;
}

const listOf = (tenants: readonly string[]) => JSON.stringify(tenants.map((tenant_id) => ({ tenant_id })));

/** Selects the cell of a tenant with its move. `age`: the milliseconds since the stage began. */
export function selectMove(tenantId: string): Statement {
  return sql`SELECT cell, stage, other, moved_at, ${now} - staged_at AS age FROM millrace_cells WHERE tenant_id = ${tenantId}`;
}

export function beginMove(tenantId: string, to: number): Statement {
  return sql`
    UPDATE millrace_cells SET stage = 'copying', other = ${to}, moved_at = ${now}, staged_at = ${now}
    WHERE tenant_id = ${tenantId} AND stage IS NULL AND cell <> ${to}`;
}

/** Changes the stage of a move, unless another process has changed it. */
export function setStage(tenantId: string, from: MoveStage, to: MoveStage): Statement {
  return sql`UPDATE millrace_cells SET stage = ${to}, staged_at = ${now} WHERE tenant_id = ${tenantId} AND stage = ${from}`;
}

export function endMove(tenantId: string, from: MoveStage): Statement {
  return sql`
    UPDATE millrace_cells SET stage = NULL, other = NULL, moved_at = NULL, staged_at = NULL
    WHERE tenant_id = ${tenantId} AND stage = ${from}`;
}

/** Changes the cell of a tenant after its rows were copied. */
export function switchCell(tenantId: string, to: number): Statement {
  return sql`
    UPDATE millrace_cells SET cell = ${to}, other = cell, stage = 'clearing', staged_at = ${now}
    WHERE tenant_id = ${tenantId} AND stage = 'ready'`;
}
