import * as z from "zod";

/**
 * Cloudflare's published schema of its pull consumers, strict: exactly these fields. Sources, read in November 2026: the OpenAPI
 * description of Cloudflare's API (github.com/cloudflare/api-schemas, openapi.json: operations `queues-pull-messages` and
 * `queues-ack-messages`, schemas `mq_api-v4-success`, `mq_api-v4-failure`, `mq_queue-pull-batch`), its SDK
 * (github.com/cloudflare/cloudflare-typescript, src/resources/queues/messages.ts), and the page
 * developers.cloudflare.com/queues/configuration/pull-consumers.
 */
const note = z.strictObject({ code: z.int().min(1000), message: z.string() });

const success = { success: z.literal(true), errors: z.array(note).length(0), messages: z.array(z.string()) };

/** The schema `mq_api-v4-failure`. */
export const publishedFailure = z.strictObject({
  success: z.literal(false),
  errors: z.array(note).min(1),
  messages: z.array(z.string()),
  result: z.null(),
});

/** An answer to `messages/pull`. */
export const publishedPull = z.strictObject({
  ...success,
  result: z.strictObject({
    message_backlog_count: z.number(),
    messages: z.array(
      z.strictObject({
        body: z.string(),
        id: z.string(),
        timestamp_ms: z.number(),
        attempts: z.number().min(1),
        metadata: z.looseObject({ "CF-Content-Type": z.enum(["json", "text", "bytes"]), "CF-sourceMessageSource": z.string() }),
        lease_id: z.string(),
      }),
    ),
  }),
});

/** An answer to `messages/ack`: `warnings` maps lease ids to their errors. */
export const publishedAck = z.strictObject({
  ...success,
  result: z.strictObject({ ackCount: z.number(), retryCount: z.number(), warnings: z.record(z.string(), z.string()) }),
});

/** Request bodies from that page and the SDK, verbatim. */
export const PUBLISHED_REQUESTS = {
  pull: [{}, { visibility_timeout: 6000, batch_size: 50 }, { visibility_timeout_ms: 6000, batch_size: 100 }, { batch_size: 50 }],
  ack: [
    {
      acks: [{ lease_id: "lease_id1" }, { lease_id: "lease_id2" }, { lease_id: "lease_id3" }],
      retries: [{ lease_id: "lease_id4", delay_seconds: 600 }],
    },
    { acks: [{ lease_id: "lease_id1" }], retries: [] },
    { acks: [{ lease_id: "lease_id1" }] },
    { retries: [{ lease_id: "lease_id4" }] },
    {},
  ],
};
