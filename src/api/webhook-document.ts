import { Routes, times } from "millrace/http";
import * as z from "zod";
import { FACT_PAYLOADS } from "../messages/fact.ts";
import { PROCESSED } from "../messages/facts.ts";
import { WEBHOOK_TEST } from "../messages/webhooks.ts";

/** The headers of a delivery that Standard Webhooks defines, and the headers of the delivery's trace. */
const headers = z.object({
  "webhook-id": z.string().meta({ description: "The id of the delivery, which is the same at every attempt." }),
  "webhook-timestamp": z.string().meta({ description: "The time of this attempt to deliver, in seconds since 1970." }),
  "webhook-signature": z.string().meta({ description: "The header contains `v1,…` for each valid secret, separated by spaces." }),
  traceparent: z.string().meta({ description: "W3C trace context: the fact's trace, with a span for each attempt." }),
  tracestate: z.string().optional(),
});

const responses = {
  "2XX": { description: "The receiver accepted the delivery, which is then complete." },
  410: { description: "The receiver refuses further requests: the endpoint is disabled." },
};

/**
 * Documents the requests that receivers of webhooks get: one request for each type of fact that receivers can subscribe to, and the test.
 */
export function describedDeliveries(): Routes {
  const routes = new Routes();
  for (const type of PROCESSED) {
    const fact = z.object({
      fact_id: z.string(),
      entity: z.string(),
      subtype: z.string().optional(),
      sequence: z.int(),
      recorded_at: times.timestamp,
      trace_id: z.string(),
      correlation_id: z.string(),
      payload: FACT_PAYLOADS[type],
    });
    describe(routes, type, `A fact of the type \`${type}\` was recorded`, fact);
  }
  describe(routes, WEBHOOK_TEST, "A test of the endpoint", z.object({ endpoint_id: z.string(), fact_id: z.string() }));
  return routes;
}

function describe({ described }: Routes, type: string, summary: string, data: z.ZodType): void {
  const schema = z.object({ type: z.literal(type), timestamp: times.timestamp, data });
  described.webhooks.push({
    method: "post",
    path: type,
    operationId: `receive_${type.replace(".", "_")}`,
    summary,
    tags: ["Webhooks"],
    security: [],
    request: { headers, body: { required: true, content: { "application/json": { schema } } } },
    responses,
  });
}
