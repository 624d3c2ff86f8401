import { type Draft, query, type Statement } from "millrace";
import { WebhookSwitched } from "../../messages/webhooks.ts";
import type { Traces } from "../contacts/traces.ts";
import { type PutOff, selectPutOff, skipPutOff } from "../webhooks/deliveries.ts";

/** What ends deliveries, in one write: their rows, and the word that lets their instances look. */
export interface Ended {
  count: number;
  statements: Statement[];
  emit: Draft[];
}

/**
 * Ends the deliveries that name a person and wait for an endpoint that is off: nobody could take them before it is on, and until then, up
 * to seven days, they would keep the name. Made again, they say what their facts say by then.
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
