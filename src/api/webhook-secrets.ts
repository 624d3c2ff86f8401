import { pages, times } from "millrace/http";
import * as z from "zod";
import { endSecret, rotateSecret } from "../systems/webhooks/registry.ts";
import { MAX_OVERLAP_SECONDS, OVERLAP_SECONDS, type SecretGeneration, signingSecrets } from "../systems/webhooks/rotation.ts";
import { operation } from "./operation.ts";
import { by, endpointOf, noWebhook, secret } from "./webhooks.ts";

const rotateSchema = z.strictObject({
  overlap_seconds: z
    .int()
    .min(0)
    .max(MAX_OVERLAP_SECONDS)
    .default(OVERLAP_SECONDS)
    .meta({ description: "The duration of the overlap, in which the previous secret also signs; 0 if that secret has leaked." }),
});

const SigningSchema = z.object({
  items: z.array(z.object({ generation: z.int(), created_at: times.timestamp, valid_until: times.timestamp.nullable() })),
});

export const webhookSecrets = [
  operation("post", "/v1/webhooks/{id}/rotate", "rotateWebhookSecret", "webhooks rotate", {
    summary: "Rotate the secret of an endpoint",
    description:
      "During the overlap each request carries a signature of each secret. If the response with the new secret is lost, rotate the secret again.",
    body: rotateSchema,
    answer: ["The new secret", z.object({ secret, generation: z.int() })],
    problems: ["webhook_not_found", "invalid_transition"],
    async run({ env, param: { id }, body, context }) {
      const rotated = await rotateSecret(env, by(context), id, body.overlap_seconds);
      if (!rotated) throw noWebhook(id);
      return rotated;
    },
  }),
  operation("post", "/v1/webhooks/{id}/secrets/{generation}/end", "endWebhookSecret", "webhooks end-secret", {
    summary: "End an older secret now",
    description: "Use this request for a leaked secret during its overlap. A repeated request has no effect.",
    params: { id: z.string(), generation: pages.wholeNumber(1) },
    body: z.strictObject({}),
    answer: ["The signing generations, newest first", SigningSchema],
    problems: ["webhook_not_found", "invalid_transition"],
    async run({ env, param: { id, generation }, context }) {
      const signing = await endSecret(env, by(context), id, generation);
      if (!signing) throw noWebhook(id);
      return { items: signing.map(secretView) };
    },
  }),
  operation("get", "/v1/webhooks/{id}/secrets", "listWebhookSecrets", "webhooks secrets", {
    summary: "List the active generations of the secret",
    description: "Returns the number and the end of each generation. No request returns an existing secret.",
    answer: ["The newest first", SigningSchema],
    problems: ["webhook_not_found"],
    async run({ env, by, param, context }) {
      const { id } = await endpointOf(context, param.id);
      return { items: (await signingSecrets(env.DB, by.tenantId, id)).map(secretView) };
    },
  }),
];

function secretView({ generation, created_at, valid_until }: SecretGeneration) {
  return { generation, created_at: times.iso(created_at), valid_until: times.isoOrNull(valid_until) };
}
