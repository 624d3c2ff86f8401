import { type EngineEnv, enqueue, ids, MillraceError, query } from "millrace";
import { actions, audit, type Operator } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { WebhookDeliver } from "../../messages/webhooks.ts";
import { type Asking, isUnderWay, type LoggedDelivery, type Repeated, repeatDeliveries, selectHad, selectRepeated } from "./deliveries.ts";

/** Maximum number of deliveries that one request sends again. */
export const REDELIVERED_AT_ONCE = 500;

interface Redelivery {
  endpointId: string;
  which: Repeated;
  /** The request's idempotency key. Requests with the same key send each delivery again only once. By default the key is unique. */
  key?: string | undefined;
  reason: string;
}

/**
 * The result of a redelivery. `replayed` is true if an earlier request with the same key has sent all deliveries, so that this request
 * started no instances.
 */
interface Redelivered {
  instanceIds: string[];
  more: boolean;
  replayed: boolean;
}

/**
 * Sends each delivery again that the request has not sent yet, oldest first. A new instance sends the delivery with its previous
 * `webhook-id` and body. `more` is true if further deliveries match, which a repeated request would send. Rows, audit rows and commands are
 * one write, which is repeated if another request has changed the same deliveries first.
 */
export async function redeliver(env: EngineEnv, catalog: Catalog, by: Operator, asked: Redelivery): Promise<Redelivered> {
  const { endpointId, which, key, reason } = asked;
  const request = ids.digest("redeliver", key ?? crypto.randomUUID());
  const asking: Asking = { tenantId: by.tenantId, endpointId, request };
  const rows = await query<Omit<LoggedDelivery, "attempts">>(env.DB, selectRepeated(asking, which, REDELIVERED_AT_ONCE + 1));
  const found = rows.slice(0, REDELIVERED_AT_ONCE);
  if (found.length === 0) {
    const replayed = key !== undefined && (await query(env.DB, selectHad(asking, which))).length > 0;
    return { instanceIds: [], more: false, replayed };
  }

  const commands = found.map(({ id, config_version, entity, fact_id, fact_type }) => ({
    command: WebhookDeliver,
    payload: { endpoint_id: endpointId, config_version, entity, fact_id, fact_type, delivery_id: id },
    idempotencyKey: `${id}/${request}`,
  }));
  const deliveryIds = found.map(({ id }) => id);
  const { name } = catalog.performer(WebhookDeliver.type);
  const instances = commands.map(({ payload, idempotencyKey }) => [payload.delivery_id, ids.instance(by.tenantId, name, idempotencyKey)]);
  const action = {
    // A repeated request that selects the same deliveries has the same action id, and so counts as one action.
    id: by.bulk ? actions.idOf(by) : ids.digest(request, ...deliveryIds),
    verb: "redeliver",
    target: endpointId,
    instanceId: null,
    reason,
    detail: { ...which, deliveries: deliveryIds.length },
  } as const;
  const also = [repeatDeliveries(asking, Object.fromEntries(instances)), audit(by, action, false)];
  const answers = await enqueue(env, catalog, { tenantId: by.tenantId, source: "api" }, commands, also).catch((error) => {
    if (!isUnderWay(error)) throw error;
  });
  if (!answers) return redeliver(env, catalog, by, asked);
  const refused = answers.find((answer) => answer instanceof MillraceError);
  if (refused) throw refused;
  const accepted = answers.flatMap((answer) => (answer instanceof MillraceError ? [] : [answer]));
  return {
    instanceIds: accepted.map((answer) => answer.instanceId),
    more: rows.length > found.length,
    replayed: accepted.every((answer) => answer.replayed),
  };
}
