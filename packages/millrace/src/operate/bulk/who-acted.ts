import { sql } from "../../contract/sql.ts";
import type { BulkItem } from "../../store/bulk-items.ts";
import { query } from "../../store/d1/retry.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";

/** Adds to each skipped item the operator who acted on it, the action and the time. */
export async function withWhoActed({ env, by }: BulkCall, items: readonly BulkItem[]): Promise<BulkItem[]> {
  const skipped = items.flatMap(({ result, target }) => (result === "skipped" ? [target] : []));
  if (skipped.length === 0) return [...items];
  const rows = await query<{ target: string; last: string | null }>(
    env.DB,
    sql`
      SELECT value AS target, (
        SELECT json_object('actor', actor, 'verb', verb, 'at', at) FROM millrace_actions INDEXED BY millrace_actions_by_target
        WHERE tenant_id = ${by.tenantId} AND target = value AND result = 'applied' ORDER BY at DESC, id DESC LIMIT 1) AS last
      FROM json_each(${JSON.stringify(skipped)})`,
  );
  const said = new Map(rows.flatMap(({ target, last }): [string, string][] => (last === null ? [] : [[target, whoIn(last)]])));
  return items.map((item) => {
    const who = item.result === "skipped" ? said.get(item.target) : undefined;
    return who === undefined ? item : { ...item, why: [who, item.why].filter(Boolean).join(" ") };
  });
}

function whoIn(last: string): string {
  const { actor, verb, at } = JSON.parse(last) as { actor: string; verb: string; at: number };
  return `Last action by ${actor}: ${verb.replaceAll("_", " ")}, ${new Date(at).toISOString().replace(/\.\d+Z$/, "Z")}.`;
}
