import type { Context } from "hono";
import { errors, MillraceError, texts } from "millrace";
import { HttpRefusal, idempotency, pages, times } from "millrace/http";
import { bulkActions, keysetPage, operatorOf } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { PROCESSED } from "../messages/facts.ts";
import { FACT_DAYS } from "../systems/facts/retention.ts";
import { deliverFacts } from "../systems/webhooks/bulk-deliver.ts";
import { type By, type Endpoint, getEndpoint, listEndpoints } from "../systems/webhooks/endpoints.ts";
import { change, register } from "../systems/webhooks/registry.ts";
import { tellSwitched } from "../systems/webhooks/switched.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

const DAY_MS = 86_400_000;

const version = z
  .int()
  .min(1)
  .meta({ description: "The version of the endpoint that you have read: if another version is current, the change is refused." });

const configSchema = z.strictObject({
  url: z.string().min(1).max(2048).meta({ description: "The target URL: https, a public host, no password." }),
  fact_types: z
    .array(z.enum(PROCESSED))
    .min(1)
    .max(PROCESSED.length)
    .transform((types) => [...new Set(types)])
    .meta({ description: "The endpoint gets the facts of these types." }),
  description: z.string().max(500).default(""),
  enabled: z.boolean().default(true),
});
const createSchema = configSchema.extend({
  backfill_days: z.int().min(1).max(FACT_DAYS).optional().meta({
    description:
      "Also delivers the facts of the days before the endpoint's creation, as `POST /v1/webhooks/{id}/deliveries` does. This option requires an enabled endpoint.",
  }),
});
const changeSchema = configSchema.extend({ version });
const enableSchema = z.strictObject({ version });

export const WebhookSchema = z
  .object({
    id: z.string(),
    version: z.int().meta({ description: "The version of the endpoint; each change adds 1." }),
    url: z.string(),
    fact_types: z.array(z.string()),
    description: z.string(),
    enabled: z.boolean(),
    state: z.enum(["enabled", "disabled", "deleted"]),
    reason: z.string().nullable().meta({ description: "The reason why the endpoint was disabled automatically." }),
    created_at: times.timestamp,
    changed_at: times.timestamp,
    changed_by: z.string(),
  })
  .meta({ id: "Webhook" });

export const secret = z.string().meta({
  description:
    "The secret `whsec_…` is shown once, and again to a repeated request with the same `Idempotency-Key`. The secret is not stored.",
});

const backfill = z
  .object({
    bulk_action: z.string().nullable().meta({ description: "The bulk action that delivers the earlier facts; null if it was refused." }),
    matched: z.int().meta({ description: "Number of facts." }),
    refused: z.string().nullable().meta({ description: "The reason why the bulk action did not start. The endpoint is registered." }),
  })
  .nullable()
  .meta({ description: "Null without `backfill_days`." });

export const webhooks = [
  operation("post", "/v1/webhooks", "registerWebhook", "webhooks register", {
    summary: "Create a webhook endpoint",
    description:
      "Delivers the facts that ledgers accept from now on, and on request those of the last days. A host name without a DNS answer is accepted; it is resolved again before each request.",
    key: "A repeated request with the same key returns the same endpoint; for one day it gets the first response.",
    body: createSchema,
    answer: ["Registered, with its secret", WebhookSchema.extend({ secret, backfill }).meta({ id: "WebhookWithSecret" })],
    status: 201,
    location: "The endpoint.",
    problems: ["invalid_transition", "idempotency_key_reused"],
    async run({ env, catalog, body: { backfill_days: days, ...config }, key, context }) {
      if (days !== undefined && !config.enabled) throw disabledBackfill();
      const { id, secret, replayed } = await register(env, by(context), config, key);
      const headers = { location: `/v1/webhooks/${id}`, ...idempotency.replayed({ replayed }) };
      const endpoint = await endpointOf(context, id);
      const backfill = days === undefined ? null : await backfilled(context, catalog, endpoint, days);
      return context.json({ ...endpoint, secret, backfill }, 201, headers);
    },
  }),
  operation("get", "/v1/webhooks", "listWebhooks", "webhooks list", {
    summary: "List webhook endpoints, newest first",
    description: "Returns the endpoints of your tenant with their configuration and state.",
    query: {
      deleted: z.enum(["true", "false"]).default("false").meta({ description: "True lists deleted endpoints too." }),
      ...pages.query,
    },
    answer: ["A page of endpoints", pages.schema(WebhookSchema)],
    async run({ env, by, query: { deleted, ...request } }) {
      const found = await keysetPage(
        request,
        ({ created_at, id }: Endpoint) => ({ at: created_at, id }),
        (before, limit) => listEndpoints(env.DB, by.tenantId, { deleted: deleted === "true", before, limit }),
      );
      return pages.of(found, webhookView);
    },
  }),
  operation("get", "/v1/webhooks/{id}", "getWebhook", "webhooks show", {
    summary: "Get a webhook endpoint",
    description: "Returns the configuration and the state of the endpoint. The response does not contain the secret.",
    answer: ["The endpoint", WebhookSchema],
    problems: ["webhook_not_found"],
    run: ({ param, context }) => endpointOf(context, param.id),
  }),
  operation("put", "/v1/webhooks/{id}", "changeWebhook", "webhooks change", {
    summary: "Replace the configuration of an endpoint",
    description:
      "The change creates a new version of the endpoint. Running deliveries go to the new URL. Deliveries deferred while the endpoint was disabled are sent when it is enabled.",
    body: changeSchema,
    answer: ["The new version", WebhookSchema],
    problems: ["webhook_not_found", "invalid_transition"],
    run: ({ catalog, param, body: { version, ...config }, context }) => changing(context, catalog, param.id, { version, config }),
  }),
  operation("post", "/v1/webhooks/{id}/enable", "enableWebhook", "webhooks enable", {
    summary: "Enable an endpoint",
    description: "Enables a disabled endpoint with its last configuration.",
    body: enableSchema,
    answer: ["The new version", WebhookSchema],
    problems: ["webhook_not_found", "invalid_transition"],
    run: ({ catalog, param, body, context }) => changing(context, catalog, param.id, { version: body.version, state: "enabled" }),
  }),
  operation("delete", "/v1/webhooks/{id}", "deleteWebhook", "webhooks delete", {
    summary: "Delete an endpoint",
    description: "The deletion stops further deliveries, skips running ones, and ends the secrets. Past deliveries remain readable.",
    answer: ["Its last version", WebhookSchema],
    problems: ["webhook_not_found", "invalid_transition"],
    async run({ catalog, param: { id }, context }) {
      const { version } = await endpointOf(context, id);
      return changing(context, catalog, id, { version, state: "deleted" });
    },
  }),
];

async function changing(context: Context<ApiEnv>, catalog: Catalog, id: string, asked: Parameters<typeof change>[3]) {
  const endpoint = await change(context.env, by(context), id, asked);
  if (endpoint) await tellSwitched(context.env, catalog, context.var.caller.tenantId, endpoint);
  return changed(id, endpoint);
}

/**
 * Starts the delivery of facts from the days before an endpoint's creation. If the delivery of these facts is refused, the endpoint
 * remains, because only this response contains the endpoint's secret.
 */
async function backfilled(
  context: Context<ApiEnv>,
  catalog: Catalog,
  { id, created_at }: z.infer<typeof WebhookSchema>,
  days: number,
): Promise<z.infer<typeof backfill>> {
  const since = new Date(Date.parse(created_at) - days * DAY_MS).toISOString();
  const filter = { endpoint_id: id, since, until: created_at };
  const request = { verb: deliverFacts.name, filter, reason: `The last ${days} days, for a new endpoint` };
  try {
    const bulk = await bulkActions.start(context.env, catalog, context.var.caller, request, `backfill/${id}`);
    return { bulk_action: bulk.id, matched: bulk.matched, refused: null };
  } catch (error) {
    if (!(error instanceof MillraceError) || errors.codeOf(error) === "unavailable") throw error;
    return { bulk_action: null, matched: 0, refused: errors.messageOf(error) };
  }
}

function disabledBackfill(): MillraceError {
  const issues = [
    { path: "backfill_days", message: "needs an enabled endpoint: leave out `enabled`, or deliver the days after it is enabled" },
  ];
  return new MillraceError("invalid_payload", "A disabled endpoint gets no facts.", { issues });
}

/** The tenant and operator of a request. */
export function by(context: Context<ApiEnv>): By {
  return operatorOf(context.var.caller);
}

/** Returns a webhook endpoint of the caller's tenant. Errors: `webhook_not_found`, also for an endpoint of another tenant. */
export async function endpointOf(context: Context<ApiEnv>, id: string): Promise<z.infer<typeof WebhookSchema>> {
  return changed(id, await getEndpoint(context.env.DB, context.var.caller.tenantId, id));
}

export function noWebhook(id: string): HttpRefusal {
  return new HttpRefusal("webhook_not_found", `There is no webhook endpoint ${texts.beginning(id, 64)}. List them with GET /v1/webhooks.`);
}

function changed(id: string, endpoint: Endpoint | undefined): z.infer<typeof WebhookSchema> {
  if (!endpoint) throw noWebhook(id);
  return webhookView(endpoint);
}

function webhookView({ created_at, changed_at, ...endpoint }: Endpoint): z.infer<typeof WebhookSchema> {
  return { ...endpoint, enabled: endpoint.state === "enabled", created_at: times.iso(created_at), changed_at: times.iso(changed_at) };
}
