import { type EngineEnv, errors, logLine, publishEvents } from "millrace";
import type { Catalog } from "millrace/worker";
import { WebhookSwitched } from "../../messages/webhooks.ts";
import type { Endpoint } from "./endpoints.ts";

/**
 * Wakes the deliveries that wait for a disabled endpoint, after the endpoint is enabled or deleted. No delivery depends on this
 * notification, because each waiting delivery also checks the endpoint once a day.
 */
export async function tellSwitched(
  env: EngineEnv,
  catalog: Catalog,
  tenantId: string,
  { id, version, state }: Pick<Endpoint, "id" | "version" | "state">,
): Promise<void> {
  if (state === "disabled") return;
  const event = { type: WebhookSwitched.type, payload: { endpoint_id: id, version }, idempotencyKey: `${id}/${version}` };
  const [stated] = await publishEvents(env, catalog, { tenantId, source: "api" }, [event]).catch((error) => [error]);
  if (!(stated instanceof Error)) return;
  logLine("error", { log: "webhook_switch_not_told", endpoint_id: id, version, error: errors.messageOf(stated) });
}
