import { pathOf } from "../../contract/payload.ts";
import { sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import { RUNS_NO_MORE } from "../../store/instances/status.ts";
import type { Check, Divergence } from "../check.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of payloads in one slice of the scan. Each payload needs one R2 request. */
const ROWS = 50;

interface Row {
  ref: string;
  id: string;
  tenant_id: string;
  workflow: string;
  status: string;
  needed: number;
}

/** Compares the references to R2 in the rows of instances with the objects that R2 contains. */
export const payloads: Check = engineCheck({
  name: "payloads",
  everyHours: 24,
  kinds: {
    payload_missing: { says: "An instance may still need its payload, which is not in R2." },
  },
  async slice(env, from) {
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT envelope->>'payload_ref' AS ref, id, tenant_id, workflow, status, status NOT IN ${RUNS_NO_MORE} AS needed
        FROM millrace_instances INDEXED BY millrace_instances_by_payload
        WHERE envelope->>'payload_ref' IS NOT NULL AND envelope->>'payload_ref' >= ${from ?? ""}
        ORDER BY envelope->>'payload_ref' LIMIT ${ROWS + 1}`,
    );
    const found = await Promise.all(
      rows
        .slice(0, ROWS)
        .filter(({ needed }) => needed === 1)
        .map(async ({ ref, id, tenant_id, workflow, status }): Promise<Divergence[]> => {
          if (await env.PAYLOADS.head(pathOf(ref))) return [];
          const detail = `The row of ${workflow} says ${status}; R2 has no object with the name in its message.`;
          return [{ kind: "payload_missing", what: id, tenantId: tenant_id, place: ref, detail }];
        }),
    );
    return { found: found.flat(), next: rows[ROWS]?.ref ?? null };
  },
});
