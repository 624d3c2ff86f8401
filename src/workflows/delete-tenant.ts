import { type Duration, defineWorkflow, notRetryable } from "millrace";
import { TenantDelete } from "../messages/tenant.ts";
import { deleted, removeOn } from "../systems/privacy/tenant.ts";

/** Delays before further passes, which are needed because stopped instances may still write and messages may still arrive. */
const PAUSES: readonly Duration[] = ["1 minute", "10 minutes", "1 hour", "6 hours", "1 day"];
/** Maximum duration of one step in milliseconds. */
const STRETCH_MS = 15_000;
/** Maximum number of steps of one pass. No tenant has so many rows that a pass needs more steps. */
const MAX_STRETCHES = 5000;

/**
 * Deletes a tenant. Each pass first deletes the tokens and schedules, so that no new data arrives, then stops running instances, and then
 * deletes objects, rows and files. The workflow repeats passes with delays until a pass finds no data. Only this instance (for 30 days) and
 * the audit row remain. If two instances delete the same tenant, the older instance continues and the newer instance stops. The workflow's
 * steps are platform steps, because each step works for up to 15 seconds and the workflow sleeps between passes.
 */
export const deleteTenant = defineWorkflow({
  name: "delete-tenant",
  on: TenantDelete,
  async run({ payload, step, env, envelope: { tenant_id: tenantId }, instanceId }) {
    if (payload.tenant !== tenantId) throw notRetryable(`The tenant is called ${tenantId}, not as in the command: no data was deleted.`);
    const call = { env: env as Env, tenantId, instanceId };
    const total: Record<string, number> = {};
    let found = 0;
    for (let pass = 0, stretch = 0; ; stretch++) {
      if (stretch > MAX_STRETCHES) throw notRetryable("New rows of the tenant are still being written. Stop their producers, then retry.");
      const { removed, over, older } = await step.commit("remove", async () => ({ output: await removeOn(call, STRETCH_MS) }), {
        key: String(stretch),
        timeout: "2 minutes",
      });
      if (older !== undefined) return { removed: {}, goes_on: older };
      for (const [place, count] of Object.entries(removed)) total[place] = (total[place] ?? 0) + count;
      found += Object.keys(removed).length;
      if (!over) continue;
      if (found === 0 && pass > 0) break;
      found = 0;
      const pause = PAUSES[pass++];
      if (pause === undefined) throw notRetryable("New rows of the tenant are still being written. Stop their producers, then retry.");
      await step.sleep("let end what was stopped", pause, { key: String(pass) });
    }
    return step.commit("audit", () => deleted(call, { actor: payload.asked_by, reason: payload.reason }, total));
  },
});
