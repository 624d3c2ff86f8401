import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import type { EngineEnv } from "millrace";
import { cellOf } from "millrace/worker";
import { onTestFinished } from "vitest";
import { cellsOf } from "../../packages/millrace/src/contract/cells.ts";
import { probeEnv } from "../engine/harness.ts";
import { STRANGER } from "./senders.ts";
import { operator } from "./stage.ts";

/** The tenants of the tests, and their cells while there are two. */
const PLACES = { [STRANGER]: 1, [operator.tenantId]: 2 };

let own = probeEnv;

/** The env of the cell of the operator's tenant. */
export const home = (): typeof probeEnv => own;

/** The rows of a query, from the databases of all cells. */
export async function everywhere<T>(sql: string, ...params: unknown[]): Promise<T[]> {
  const found = await Promise.all(
    cellsOf(probeEnv).map(({ DB }) =>
      DB.prepare(sql)
        .bind(...params)
        .all<T>(),
    ),
  );
  return found.flatMap(({ results }) => results);
}

/** Until the test ends there are two cells, and the operator's tenant lives in the second, apart from the other tenant. */
export async function inTwoCells(): Promise<void> {
  const env = probeEnv as typeof probeEnv & { CELLS?: number; DB_2: D1Database; TEST_MIGRATIONS: D1Migration[] };
  await applyD1Migrations(env.DB_2, env.TEST_MIGRATIONS);
  const placed = Object.entries(PLACES).map(([tenant, cell]) =>
    env.DB.prepare("INSERT INTO millrace_cells (tenant_id, cell) VALUES (?1, ?2) ON CONFLICT (tenant_id) DO UPDATE SET cell = ?2").bind(
      tenant,
      cell,
    ),
  );
  await env.DB.batch(placed);
  env.CELLS = 2;
  own = await cellOf(env, operator.tenantId);
  earlier = await foreignRows();
  onTestFinished(async () => {
    delete env.CELLS;
    own = probeEnv;
    // With one cell, the database refuses the instances of tenants of other cells.
    await env.DB.prepare("DELETE FROM millrace_cells").run();
  });
}

/** Counts the rows that a tenant has in the database of another cell. The keys are the texts of a report. */
async function foreignRows(): Promise<ReadonlyMap<string, number>> {
  const all = await Promise.all(
    cellsOf<Pick<EngineEnv, "DB" | "CELL">>(probeEnv).map(async ({ DB, CELL = 1 }) => {
      const { results } = await DB.prepare(
        "SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c ON c.name = 'tenant_id' WHERE m.type = 'table' AND m.name <> 'millrace_cells'",
      ).all<{ name: string }>();
      const foreign = Object.entries(PLACES).flatMap(([tenant, cell]) => (cell === CELL ? [] : [tenant]));
      const counts = results.map(async ({ name }) => {
        const sql = `SELECT count(*) AS n FROM ${name} WHERE tenant_id IN (SELECT value FROM json_each(?1))`;
        const count = await DB.prepare(sql).bind(JSON.stringify(foreign)).first<number>("n");
        return [`rows of ${foreign} are in ${name} of the cell ${CELL}`, count ?? 0] as const;
      });
      return Promise.all(counts);
    }),
  );
  return new Map(all.flat());
}

/** The rows of other files of the same worker, which had one cell. */
let earlier: ReadonlyMap<string, number> = new Map();

/** T01: the rows of a tenant that came to the database of another tenant's cell since `inTwoCells`. */
export async function strayed(): Promise<string[]> {
  return [...(await foreignRows())].flatMap(([where, count]) => {
    const added = count - (earlier.get(where) ?? 0);
    return added > 0 ? [`invented: ${added} ${where}`] : [];
  });
}
