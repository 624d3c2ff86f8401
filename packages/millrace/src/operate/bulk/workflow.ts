import type { EngineEnv } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import type { Reporting } from "../../guard/step.ts";
import { enqueueOne } from "../../intake/accept/enqueue.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { defineWorkflow } from "../../workflow/workflow.ts";
import { BULK_WORKFLOW, BulkActionRun, passInstance } from "./message.ts";
import { type Turn, takeTurn, type Went } from "./turn.ts";

/**
 * Maximum number of turns of one instance, which act on at most 1,500 items. A bulk action runs as several instances, so that the history
 * of each instance is short and within the platform's limits.
 */
const TURNS = 30;

/**
 * Starts the next instance of the bulk action, once per key. The command begins a new job, because a chain of messages is limited to a few
 * hops.
 */
async function handOver({ env, catalog, tenantId, bulkId, pass }: Omit<Turn, "isLast" | "progress">): Promise<object> {
  await crashPoint("B03 chunk ended, next run not started", bulkId);
  const asked = { command: BulkActionRun, payload: { bulk_id: bulkId, pass: pass + 1 } };
  const causationId = `${passInstance(tenantId, bulkId, pass)}/hand over`;
  await enqueueOne(env, catalog, { tenantId, source: BULK_WORKFLOW }, { ...asked, correlationId: bulkId, causationId });
  return {};
}

/** After a refused write or an unavailable database. The repeated turn finds the results that the earlier attempt recorded. */
const RETRIES = { limit: 8, delay: "1 second", backoff: "exponential" } as const;

/** Its consumer is `defineConsumer({ queue: BulkActionRun.queue, starts: [bulkAction] })`, its class `entrypoint(bulkAction, app)`. */
export const bulkAction = defineWorkflow({
  name: BULK_WORKFLOW,
  on: BulkActionRun,
  async run({ payload: { bulk_id: bulkId, pass }, step, env, envelope: { tenant_id: tenantId }, deployment }) {
    const given = { env: env as unknown as EngineEnv, catalog: deployment as Catalog, tenantId, bulkId, pass };
    for (let turn = 1; ; turn++) {
      const take = ({ progress }: Reporting) => takeTurn({ ...given, progress, isLast: turn === TURNS });
      const went: Went = await step.commit("act on some", take, { key: `turn ${turn}`, retries: RETRIES, timeout: "2 minutes" });
      if (went === "on") continue;
      if (went === "next") await step.commit("hand over", () => handOver(given), { retries: RETRIES });
      return { pass, turns: turn, went };
    }
  },
});
