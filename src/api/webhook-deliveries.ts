import { enqueueOne, ids, MillraceError, texts } from "millrace";
import { HttpRefusal, pages, times } from "millrace/http";
import { keysetPage } from "millrace/operate";
import * as z from "zod";
import { WEBHOOK_TEST, WebhookDeliver } from "../messages/webhooks.ts";
import { getDelivery, type LoggedDelivery, listDeliveries, testRow } from "../systems/webhooks/deliveries.ts";
import { testOf } from "../systems/webhooks/offer.ts";
import { operation } from "./operation.ts";
import { endpointOf } from "./webhooks.ts";

const STATES = ["pending", "sent", "failed", "gone", "skipped"] as const;

const DeliverySchema = z
  .object({
    id: z.string().meta({ description: "The id of the delivery, of its first instance, and the `webhook-id` that the receiver gets." }),
    instance_id: z.string().meta({ description: "The newest instance that sends the delivery; a redelivery has another instance." }),
    state: z
      .enum(STATES)
      .meta({ description: "The state is `sent` once the receiver has accepted the delivery; a redelivery does not change that." }),
    redelivery: z
      .enum(STATES)
      .nullable()
      .meta({ description: "The state of the delivery's newest redelivery; null without a redelivery." }),
    config_version: z.int().meta({ description: "The version of the endpoint that matched the fact." }),
    entity: z.string(),
    fact_id: z.string(),
    fact_type: z.string(),
    matched_at: times.timestamp,
    tried: z.int().meta({ description: "Number of attempts." }),
  })
  .meta({ id: "WebhookDelivery" });

const AttemptSchema = z
  .object({
    attempt: z.int(),
    at: times.timestamp,
    version: z.int().meta({ description: "The version of the endpoint that received this attempt." }),
    status: z.int().nullable().meta({ description: "The status of the response; null without a response." }),
    answer: z.string().nullable().meta({ description: "The first KB of the response body, as text." }),
    error: z.string().nullable(),
    ms: z.int(),
  })
  .meta({ id: "WebhookAttempt" });

const DeliveryDetailSchema = DeliverySchema.extend({ attempts: z.array(AttemptSchema) }).meta({ id: "WebhookDeliveryDetail" });

export const webhookDeliveries = [
  operation("get", "/v1/webhooks/{id}/deliveries", "listWebhookDeliveries", "webhooks deliveries", {
    summary: "List the deliveries of an endpoint, newest first",
    description: "Deliveries are kept for 30 days. Retry a failed one with POST /v1/instances/{instance_id}/retry, redeliver others.",
    query: { state: z.enum(STATES).optional(), redelivery: z.enum(STATES).optional(), ...pages.query },
    answer: ["A page of deliveries", pages.schema(DeliverySchema)],
    problems: ["webhook_not_found"],
    async run({ env, by: { tenantId }, param, query: { state, redelivery, ...request }, context }) {
      const { id } = await endpointOf(context, param.id);
      const found = await keysetPage(
        request,
        ({ matched_at, id }: Omit<LoggedDelivery, "attempts">) => ({ at: matched_at, id }),
        (before, limit) => listDeliveries(env.DB, tenantId, id, { state, redelivery, before, limit }),
      );
      return pages.of(found, deliveryView);
    },
  }),
  operation("get", "/v1/webhooks/{id}/deliveries/{delivery}", "getWebhookDelivery", "webhooks delivery", {
    summary: "Get a delivery with its attempts",
    description: "Returns the event, the state and each attempt with its answer.",
    answer: ["The delivery", DeliveryDetailSchema],
    problems: ["webhook_not_found", "delivery_not_found"],
    async run({ env, by, param: { id: endpoint, delivery }, context }) {
      const { id } = await endpointOf(context, endpoint);
      const found = await getDelivery(env.DB, by.tenantId, id, delivery);
      if (!found) throw noDelivery(id, delivery);
      return { ...deliveryView(found), attempts: found.attempts };
    },
  }),
  operation("post", "/v1/webhooks/{id}/test", "testWebhook", "webhooks test", {
    summary: "Send a test to an endpoint",
    description: `Sends an event of type \`${WEBHOOK_TEST}\` like a fact, to this endpoint only.`,
    body: z.strictObject({}),
    answer: ["On its way", z.object({ delivery_id: z.string(), instance_id: z.string() })],
    status: 202,
    location: "The delivery.",
    problems: ["webhook_not_found", "invalid_transition"],
    async run({ env, by: { tenantId, actor }, catalog, param, context }) {
      const endpoint = await endpointOf(context, param.id);
      if (!endpoint.enabled) {
        throw new MillraceError("invalid_transition", `The endpoint is ${endpoint.state}: enable it, then test it.`, {
          from: endpoint.state,
        });
      }
      const payload = testOf(endpoint);
      const id = ids.instance(tenantId, catalog.performer(WebhookDeliver.type).name, WebhookDeliver.key?.(payload) ?? "");
      const command = { command: WebhookDeliver, payload };
      // One write stores the delivery's command and its row, so that a delivery always has both.
      const { instanceId } = await enqueueOne(env, catalog, { tenantId, source: `api/${actor}` }, command, [
        testRow(tenantId, id, payload),
      ]);
      context.header("location", `/v1/webhooks/${endpoint.id}/deliveries/${id}`);
      return { delivery_id: id, instance_id: instanceId };
    },
  }),
];

export function noDelivery(id: string, delivery: string): HttpRefusal {
  return new HttpRefusal(
    "delivery_not_found",
    `This endpoint has no delivery ${texts.beginning(delivery, 64)}. List them with GET /v1/webhooks/${id}/deliveries.`,
  );
}

function deliveryView(delivery: Omit<LoggedDelivery, "attempts">): z.infer<typeof DeliverySchema> {
  const { id, instance_id, state, redelivery, config_version, entity, fact_id, fact_type, matched_at, tried } = delivery;
  return { id, instance_id, state, redelivery, config_version, entity, fact_id, fact_type, matched_at: times.iso(matched_at), tried };
}
