import { cellCount, inCell, openCells } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { sha256 } from "../contract/ids.ts";
import { among, now, type Statement, sql } from "../contract/sql.ts";
import { atomically, query } from "./d1/retry.ts";

/** How long an isolate caches the cell of a tenant, in milliseconds. A move waits longer than this time. */
const CACHED_MS = 60_000;
const MAX_CACHED = 10_000;

const cache = new Map<string, { cell: number; until: number }>();
/** The tenants that get no new commands, as of the last read. */
const closing = new Set<string>();

interface Placed {
  tenant_id: string;
  cell: number;
  stage?: MoveStage | null;
}

export type MoveStage = "copying" | "closing" | "frozen" | "ready" | "clearing" | "cancelling";

/**
 * The env of a tenant's cell. The first use of a tenant chooses its cell, which is stored in the first cell's database. With one cell, the
 * function returns the given env. Errors: `unavailable` if the database does not answer, or while the tenant's rows move to another cell.
 */
export async function cellOf<Env extends object>(env: Env, tenantId: string): Promise<Env> {
  if (cellCount(env) === 1) return env;
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
  return new Map([...cells].map(([tenant, cell]) => [tenant, inCell(env, cell)]));
}

async function placed(first: object, tenants: readonly string[]): Promise<Placed[]> {
  const { DB } = first as { DB: D1Database };
  const found = await query<Placed>(DB, selectCells(tenants));
  const known = new Set(found.map(({ tenant_id }) => tenant_id));
  const fresh = tenants.filter((tenant) => !known.has(tenant));
  if (fresh.length === 0) return found;
  const [, stored = []] = await atomically(DB, [placeTenants(fresh, first), selectCells(fresh)]);
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

/**
 * Stores the cells of new tenants. A tenant with a token, an instance, an action or a schedule in the first cell was used before the
 * deployment had several cells, and stays there. A stored cell remains unchanged.
 */
export function placeTenants(tenants: readonly string[], env: object): Statement {
  const open = openCells(env);
  const chosen = tenants.map((tenant): Placed => ({ tenant_id: tenant, cell: chosenCell(tenant, open, env) }));
  return sql`
    INSERT INTO millrace_cells (tenant_id, cell)
    SELECT t.value->>'tenant_id', iif(
      EXISTS (SELECT 1 FROM millrace_tokens WHERE tenant_id = t.value->>'tenant_id')
        OR EXISTS (SELECT 1 FROM millrace_instances WHERE tenant_id = t.value->>'tenant_id')
        OR EXISTS (SELECT 1 FROM millrace_actions WHERE tenant_id = t.value->>'tenant_id')
        OR EXISTS (SELECT 1 FROM millrace_schedules WHERE tenant_id = t.value->>'tenant_id'),
      1, t.value->>'cell')
    FROM json_each(${JSON.stringify(chosen)}) t WHERE true ON CONFLICT (tenant_id) DO NOTHING`;
}

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
