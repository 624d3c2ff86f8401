import type { Context } from "hono";
import { MillraceError } from "millrace";
import { bodies, idempotency, times } from "millrace/http";
import { bulkActions } from "millrace/operate";
import * as z from "zod";
import { deliverFacts } from "../systems/webhooks/bulk-deliver.ts";
import { getDelivery, REPEATABLE } from "../systems/webhooks/deliveries.ts";
import { REDELIVERED_AT_ONCE, redeliver } from "../systems/webhooks/redeliver.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";
import { noDelivery } from "./webhook-deliveries.ts";
import { endpointOf } from "./webhooks.ts";

const manySchema = bodies.reasoned.extend({
  state: z
    .enum(REPEATABLE)
    .meta({ description: "The state of the delivery's newest instance: `sent` excludes a sent delivery with a skipped redelivery." }),
  since: times.timestamp
    .optional()
    .meta({ description: "Selects facts that matched the endpoint at this time or later; default: all kept facts." }),
  until: times.timestamp.optional().meta({ description: "Selects facts that matched the endpoint before this time; default: all." }),
});

const laterSchema = bodies.reasoned.extend({
  since: times.timestamp.meta({ description: "Selects facts that were recorded at this time or later. Facts are kept for 400 days." }),
  until: times.timestamp
    .optional()
    .meta({ description: "Selects facts that were recorded before this time; default: all that are stored now." }),
  dry_run: z.boolean().default(false).meta({ description: "True only counts the facts, without a delivery." }),
  rate_per_second: z
    .number()
    .min(0.1)
    .max(100)
    .optional()
    .meta({ description: "The number of deliveries that are started per second. Default 10." }),
});

const SAME_KEY = "The same request with the same key sends each delivery again once.";

export const webhookRedeliveries = [
  operation("post", "/v1/webhooks/{id}/deliveries", "deliverFactsLater", "webhooks deliver-later", {
    summary: "Deliver the facts of a period",
    description: [
      "Starts a bulk action over the facts of the endpoint's types that have no sent delivery: the endpoint was disabled, or is new. Each fact gets the one delivery that it would have had, with the same `webhook-id`; the oldest facts first, at most 100,000.",
      "Follow, abort or resume the bulk action at `/v1/bulk-actions/{bulk_action}`. Deliveries that are `pending` or `failed` are left as they are.",
    ].join("\n\n"),
    key: "A repeated request with the same key returns the same bulk action.",
    body: laterSchema,
    plan: {
      answer: ["A dry run: the number of facts, and of each stage", z.object({ matched: z.int(), stages: z.array(z.int()) })],
      async run({ env, by, catalog, param: { id }, body, context }) {
        const { matched, stages } = await bulkActions.plan(env, catalog, by, await laterRequest(context, id, body));
        return { matched, stages };
      },
    },
    answer: ["It runs", z.object({ bulk_action: z.string(), matched: z.int() })],
    status: 202,
    location: "The bulk action.",
    problems: ["webhook_not_found", "invalid_transition", "idempotency_key_reused", "bulk_actions_running"],
    async run({ env, by, catalog, param: { id }, body, key, context }) {
      const bulk = await bulkActions.start(env, catalog, by, await laterRequest(context, id, body), key);
      context.header("location", `/v1/bulk-actions/${bulk.id}`);
      return context.json({ bulk_action: bulk.id, matched: bulk.matched }, 202, idempotency.replayed(bulk));
    },
  }),
  operation("post", "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", "redeliverWebhook", "webhooks redeliver", {
    summary: "Redeliver a delivery",
    description: [
      "Sends a delivery again that was `skipped`, refused as `gone`, or `sent` but lost by the receiver. The redelivery has the same `webhook-id` and body and a new instance.",
      "While the endpoint is disabled, the delivery waits. For a failed delivery, retry its instance instead.",
    ].join("\n\n"),
    key: SAME_KEY,
    body: bodies.reasoned,
    answer: ["On its way", z.object({ delivery_id: z.string(), instance_id: z.string() })],
    status: 202,
    problems: ["webhook_not_found", "delivery_not_found", "invalid_transition"],
    async run({ env, by, catalog, param: { id, delivery }, body: { reason }, key, context }) {
      await notDeleted(context, id);
      const which = { id: delivery };
      const { instanceIds, replayed } = await redeliver(env, catalog, by, { endpointId: id, which, key, reason });
      const [instance_id] = instanceIds;
      if (instance_id !== undefined) return context.json({ delivery_id: delivery, instance_id }, 202, idempotency.replayed({ replayed }));
      const found = await getDelivery(env.DB, by.tenantId, id, delivery);
      if (!found) throw noDelivery(id, delivery);
      const state = found.redelivery ?? found.state;
      const hint = state === "failed" ? `retry its instance, POST /v1/instances/${found.instance_id}/retry` : "it is under way";
      throw new MillraceError("invalid_transition", `The delivery is ${state}: ${hint}.`, { from: state });
    },
  }),
  operation("post", "/v1/webhooks/{id}/redeliver", "redeliverWebhooks", "webhooks redeliver-all", {
    summary: "Redeliver deliveries of an endpoint",
    description: `Redelivers deliveries in one state, oldest first, at most ${REDELIVERED_AT_ONCE} per request. While \`more\` is true, repeat the request with the same \`Idempotency-Key\` for the next ones.`,
    key: SAME_KEY,
    body: manySchema,
    answer: [
      "Accepted",
      z.object({
        redelivered: z.int().meta({ description: "Number of deliveries that this request sends again." }),
        more: z.boolean().meta({ description: "True if more deliveries match than this request sends again." }),
      }),
    ],
    status: 202,
    problems: ["webhook_not_found", "invalid_transition"],
    async run({ env, by, catalog, param: { id }, body: { state, since, until, reason }, key, context }) {
      await notDeleted(context, id);
      const at = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));
      const which = { state, since: at(since), until: at(until) };
      const { instanceIds, more, replayed } = await redeliver(env, catalog, by, { endpointId: id, which, key, reason });
      return context.json({ redelivered: instanceIds.length, more }, 202, idempotency.replayed({ replayed }));
    },
  }),
];

/** The bulk action that delivers the facts of a period to an enabled endpoint. Errors: `invalid_transition`. */
async function laterRequest(context: Context<ApiEnv>, id: string, { dry_run: _, since, until, ...options }: z.infer<typeof laterSchema>) {
  const { state } = await endpointOf(context, id);
  if (state !== "enabled") {
    throw new MillraceError("invalid_transition", `The endpoint is ${state}: enable it, then deliver to it.`, { from: state });
  }
  return { verb: deliverFacts.name, filter: { endpoint_id: id, since, until }, ...options };
}

/** Refuses a redelivery to a deleted endpoint, because a deleted endpoint gets no more deliveries. */
async function notDeleted(context: Context<ApiEnv>, id: string): Promise<void> {
  const { state } = await endpointOf(context, id);
  if (state === "deleted")
    throw new MillraceError("invalid_transition", "The endpoint is deleted: no further delivery is sent.", { from: state });
}
