import * as z from "zod";
import type { Delivery } from "../inspect/delivery.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";

export const DeliverySchema = z
  .object({
    instance_id: z.string(),
    status: z.enum(INSTANCE_STATUSES).meta({
      description: "The status of the sending instance: `complete` after acceptance, `errored` after the last failed attempt.",
    }),
    attempts: z.int().nullable().meta({ description: "Failed attempts so far; null if only the platform has the number." }),
    last_error: z.string().nullable().meta({ description: "The answer to the last failed attempt; null if unknown." }),
  })
  .meta({ id: "NoticeDelivery" });

export function deliveryView({ instanceId, status, attempts, lastError }: Delivery): z.infer<typeof DeliverySchema> {
  return { instance_id: instanceId, status, attempts, last_error: lastError };
}
