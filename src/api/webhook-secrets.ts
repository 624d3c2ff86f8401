import { answers, bodies, createRoute, needs, pages, Routes, times } from "millrace/http";
import * as z from "zod";
import { endSecret, rotateSecret } from "../systems/webhooks/registry.ts";
import { MAX_OVERLAP_SECONDS, OVERLAP_SECONDS, type SecretGeneration, signingSecrets } from "../systems/webhooks/rotation.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";
import { by, endpointOf, noWebhook, secret } from "./webhooks.ts";

const rotateSchema = z.strictObject({
  overlap_seconds: z
    .int()
    .min(0)
    .max(MAX_OVERLAP_SECONDS)
    .default(OVERLAP_SECONDS)
    .meta({ description: "The duration of the overlap, in which the previous secret also signs; 0 if that secret has leaked." }),
});

const endSchema = z.strictObject({});

const params = z.object({ id: z.string() });

const rotate = createRoute({
  method: "post",
  path: "/v1/webhooks/{id}/rotate",
  operationId: "rotateWebhookSecret",
  command: "webhooks rotate",
  summary: "Rotate the secret of an endpoint",
  description:
    "During the overlap each request carries a signature of each secret. If the response with the new secret is lost, rotate the secret again.",
  ...needs("operate"),
  request: { params, body: bodies.json(rotateSchema) },
  responses: {
    200: answers("The new secret", z.object({ secret, generation: z.int() })),
    ...problems(...bodies.refusals, "webhook_not_found", "invalid_transition"),
  },
});

const SigningSchema = z.object({
  items: z.array(z.object({ generation: z.int(), created_at: times.timestamp, valid_until: times.timestamp.nullable() })),
});

const end = createRoute({
  method: "post",
  path: "/v1/webhooks/{id}/secrets/{generation}/end",
  operationId: "endWebhookSecret",
  command: "webhooks end-secret",
  summary: "End an older secret now",
  description: "Use this request for a leaked secret during its overlap. A repeated request has no effect.",
  ...needs("operate"),
  request: {
    params: z.object({ id: z.string(), generation: pages.wholeNumber(1).meta({ type: "integer", minimum: 1 }) }),
    body: bodies.json(endSchema),
  },
  responses: {
    200: answers("The signing generations, newest first", SigningSchema),
    ...problems(...bodies.refusals, "webhook_not_found", "invalid_transition"),
  },
});

const list = createRoute({
  method: "get",
  path: "/v1/webhooks/{id}/secrets",
  operationId: "listWebhookSecrets",
  command: "webhooks secrets",
  summary: "List the active generations of the secret",
  description: "Returns the number and the end of each generation. No request returns an existing secret.",
  ...needs("read"),
  request: { params },
  responses: {
    200: answers("The newest first", SigningSchema),
    ...problems("unauthorized", "forbidden", "webhook_not_found"),
  },
});

export function webhookSecrets() {
  return new Routes<ApiEnv>()
    .openapi(rotate, async (context) => {
      const { id } = context.req.valid("param");
      const { overlap_seconds } = await bodies.read(context.req, rotateSchema);
      const rotated = await rotateSecret(context.env, by(context), id, overlap_seconds);
      if (!rotated) throw noWebhook(id);
      return context.json(rotated, 200);
    })
    .openapi(end, async (context) => {
      const { id, generation } = context.req.valid("param");
      await bodies.read(context.req, endSchema);
      const signing = await endSecret(context.env, by(context), id, generation);
      if (!signing) throw noWebhook(id);
      return context.json({ items: signing.map(secretView) }, 200);
    })
    .openapi(list, async (context) => {
      const { id } = await endpointOf(context, context.req.valid("param").id);
      const signing = await signingSecrets(context.env.DB, context.var.caller.tenantId, id);
      return context.json({ items: signing.map(secretView) }, 200);
    });
}

function secretView({ generation, created_at, valid_until }: SecretGeneration) {
  return { generation, created_at: times.iso(created_at), valid_until: times.isoOrNull(valid_until) };
}
