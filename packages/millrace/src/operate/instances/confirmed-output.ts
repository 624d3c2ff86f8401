import type { EngineEnv } from "../../contract/bindings.ts";
import { formatEntryKey } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import type { Effect } from "../../inspect/effects.ts";
import type { Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { type ResolvedEntry, selectResolved } from "../../store/inbox/read.ts";

/**
 * The output that an operator confirmed and a retry keeps, as a sentence; of the last such step if there are several. Null if there is
 * none.
 */
export async function noteOnConfirmed(
  env: EngineEnv,
  { tenantId }: Operator,
  instanceId: string,
  effects: readonly Effect[],
): Promise<string | null> {
  const resolved = await query<ResolvedEntry>(env.DB, selectResolved(instanceId));
  const kept = resolved.filter(({ state }) => state === "confirmed" || state === "done");
  const confirmed = new Set(kept.map(({ step, item, generation }) => formatEntryKey({ instanceId, step, item, generation })));
  const effect = effects.findLast(
    ({ key, skipped, state, undo }) => undo !== "undo_step" && (confirmed.has(key) || (skipped && state === "done")),
  );
  if (effect === undefined) return null;
  const [confirm] = await query<{ actor: string }>(
    env.DB,
    sql`
      SELECT actor FROM millrace_actions WHERE tenant_id = ${tenantId} AND target = ${effect.key} AND verb = 'confirm'
        AND result = 'applied'
      ORDER BY at DESC LIMIT 1`,
  );
  const which = `the output that ${confirm?.actor ?? "an operator"} ${effect.skipped ? "gave" : "confirmed"} for "${labelOf(effect.step, effect.item)}"`;
  return `A retry keeps ${which}. If that output made the run fail, confirm the correct one (POST /v1/effects/${effect.key}/confirm), then retry.`;
}
