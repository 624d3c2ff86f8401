import type { EngineEnv } from "../../contract/bindings.ts";
import { inCell } from "../../contract/cells.ts";
import { sha256 } from "../../contract/ids.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import { type MoveStage, selectCells } from "../../store/cells.ts";
import { query } from "../../store/d1/retry.ts";
import { type Check, type Checked, type Divergence, engineCheck } from "../scan.ts";

/** Maximum number of tenants in one slice. */
const TENANTS = 200;

/** Compares the tenants in a cell's database with the directory. After a restore of one database, both can differ. */
export const homes: Check = engineCheck({
  name: "homes",
  everyHours: 1,
  kinds: {
    tenant_elsewhere: { says: "A cell has instances of a tenant that lives in another cell, or the directory has a tenant's former cell." },
  },
  async slice(env: EngineEnv, from) {
    const rows = await query<{ tenant: string; home: number | null }>(env.DB, selectTenants(from ?? ""));
    const listed = await query<{ tenant_id: string; cell: number; stage: MoveStage | null }>(
      inCell(env).DB,
      selectCells(rows.map(({ tenant }) => tenant)),
    );
    const directory = new Map(listed.map((one) => [one.tenant_id, one]));
    const { CELL: own = 1 } = env;
    const found = rows.flatMap(({ tenant, home }): Divergence[] => {
      const { cell = own, stage = null } = directory.get(tenant) ?? { cell: home ?? own };
      if (stage !== null || (home === null) === (cell === own)) return [];
      const says = home === null ? "has its instances" : `has noted its move to the cell ${home}`;
      const detail = `The directory says cell ${cell}, and the cell ${own} ${says}.`;
      return [{ kind: "tenant_elsewhere", what: sha256(tenant).slice(0, 32), tenantId: tenant, place: tenant, detail }];
    });
    return { found, next: rows.length < TENANTS ? null : (rows.at(-1)?.tenant ?? null) } satisfies Checked;
  },
});

/** Selects tenants with instances in a database, and tenants that have left it, in the order of their ids. */
function selectTenants(from: string): Statement {
  return sql`
    WITH RECURSIVE present(id) AS (
      SELECT min(tenant_id) FROM millrace_instances WHERE tenant_id >= ${from}
      UNION ALL SELECT (SELECT min(tenant_id) FROM millrace_instances WHERE tenant_id > present.id) FROM present
      WHERE present.id IS NOT NULL LIMIT ${TENANTS})
    SELECT t.id AS tenant, (SELECT cell FROM millrace_moved WHERE tenant_id = t.id AND filled_by IS NULL) AS home
    FROM (SELECT id FROM present WHERE id IS NOT NULL
      UNION SELECT tenant_id FROM (SELECT tenant_id FROM millrace_moved WHERE tenant_id >= ${from} ORDER BY tenant_id LIMIT ${TENANTS})) t
    ORDER BY t.id LIMIT ${TENANTS}`;
}
