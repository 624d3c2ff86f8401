import { type Draft, query, type Statement } from "millrace";
import { WebhookSwitched } from "../../messages/webhooks.ts";
import type { Traces } from "../contacts/traces.ts";
import { type PutOff, selectPutOff, skipPutOff } from "../webhooks/deliveries.ts";

/** The writes that end deliveries, which change the deliveries' rows and wake the deliveries' instances. */
export interface Ended {
  count: number;
  statements: Statement[];
  emit: Draft[];
}

/**
 * Ends deliveries that mention a person and wait for a disabled endpoint. These deliveries could not be sent before the endpoint is
 * enabled, and would keep the name for up to seven days. A redelivery sends the fact in its current, rewritten form.
 */
export async function endPutOff(env: Env, tenantId: string, traces: Traces): Promise<Ended> {
  const found = (await query<PutOff & Record<string, unknown>>(env.DB, selectPutOff(tenantId, traces.mentions))).filter(
    ({ fact_id, envelope }) => traces.rewrite("fact_id", fact_id) !== fact_id || traces.rewrite("envelope", envelope) !== envelope,
  );
  if (found.length === 0) return { count: 0, statements: [], emit: [] };
  const ids = found.map(({ id }) => id);
  const endpoints = new Map(found.map(({ endpoint_id, version }) => [endpoint_id, { endpoint_id, version }]));
  return {
    count: found.length,
    statements: [skipPutOff(tenantId, ids)],
    emit: [...endpoints.values()].map((one) => WebhookSwitched.from(one)),
  };
}
