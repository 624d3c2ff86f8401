import * as z from "zod";
import type { Delivery } from "../inspect/delivery.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";

/** What came of a notice to somebody outside. */
export const DeliverySchema = z
  .object({
    instance_id: z.string(),
    status: z.enum(INSTANCE_STATUSES).meta({
      description: "Of the instance that sends it: `complete` once it was accepted, `errored` where it was given up.",
    }),
    attempts: z.int().nullable().meta({ description: "Attempts so far at what failed; null where only the platform knows." }),
    last_error: z.string().nullable().meta({ description: "What the last failed attempt was answered; null where none is known." }),
  })
  .meta({ id: "NoticeDelivery" });

export function deliveryView({ instanceId, status, attempts, lastError }: Delivery): z.infer<typeof DeliverySchema> {
  return { instance_id: instanceId, status, attempts, last_error: lastError };
}
