import { z } from "@hono/zod-openapi";
import type { Delivery } from "../inspect/delivery.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";

/** What came of a notice to somebody outside. */
export const DeliverySchema = z
  .object({
    instance_id: z.string(),
    status: z.enum(INSTANCE_STATUSES).openapi({
      description: "Of the instance that sends it: `complete` once it was accepted, `errored` where it was given up.",
    }),
    attempts: z.int().nullable().openapi({ description: "Attempts so far at what failed; null where only the platform knows." }),
    last_error: z.string().nullable().openapi({ description: "What the last failed attempt was answered; null where none is known." }),
  })
  .openapi("NoticeDelivery");

export function deliveryView({ instanceId, status, attempts, lastError }: Delivery): z.infer<typeof DeliverySchema> {
  return { instance_id: instanceId, status, attempts, last_error: lastError };
}
