import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { rotateSecret } from "../webhooks/registry.ts";
import { MAX_OVERLAP_SECONDS, OVERLAP_SECONDS, signingSecrets } from "../webhooks/rotation.ts";
import { ACTION_REFUSALS } from "./actions.ts";
import { needs } from "./auth.ts";
import { jsonBody, readBody } from "./body.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problem.ts";
import { answers } from "./responses.ts";
import { iso, isoOrNull, timestamp } from "./time.ts";
import { by, endpointOf, noWebhook, secret } from "./webhooks.ts";

const rotateSchema = z.strictObject({
  overlap_seconds: z
    .int()
    .min(0)
    .max(MAX_OVERLAP_SECONDS)
    .default(OVERLAP_SECONDS)
    .meta({ description: "How long the secret before goes on signing; 0 when it is no longer yours alone." }),
});

const params = z.object({ id: z.string() });

const rotate = createRoute({
  method: "post",
  path: "/v1/webhooks/{id}/rotate",
  operationId: "rotateWebhookSecret",
  summary: "Give an endpoint a new secret",
  description: "During the overlap each request carries a signature of each secret. A lost answer is no harm: rotate again.",
  ...needs("operate"),
  request: { params, body: jsonBody(rotateSchema) },
  responses: {
    200: answers("The new secret", z.object({ secret, generation: z.int() })),
    ...problems(...ACTION_REFUSALS, "webhook_not_found", "invalid_transition"),
  },
});

const list = createRoute({
  method: "get",
  path: "/v1/webhooks/{id}/secrets",
  operationId: "listWebhookSecrets",
  summary: "List which generations of the secret sign, and until when",
  description: "The secrets themselves cannot be read.",
  ...needs("read"),
  request: { params },
  responses: {
    200: answers(
      "The newest first",
      z.object({ items: z.array(z.object({ generation: z.int(), created_at: timestamp, valid_until: timestamp.nullable() })) }),
    ),
    ...problems("unauthorized", "forbidden", "webhook_not_found"),
  },
});

export function webhookSecrets() {
  return new OpenAPIHono<ApiEnv>()
    .openapi(rotate, async (context) => {
      const { id } = context.req.valid("param");
      const { overlap_seconds } = await readBody(context.req, rotateSchema);
      const rotated = await rotateSecret(context.env, by(context), id, overlap_seconds);
      if (!rotated) throw noWebhook(id);
      return context.json(rotated, 200);
    })
    .openapi(list, async (context) => {
      const { id } = await endpointOf(context, context.req.valid("param").id);
      const signing = await signingSecrets(context.env.DB, context.var.caller.tenantId, id);
      const items = signing.map(({ generation, created_at, valid_until }) => ({
        generation,
        created_at: iso(created_at),
        valid_until: isoOrNull(valid_until),
      }));
      return context.json({ items }, 200);
    });
}
