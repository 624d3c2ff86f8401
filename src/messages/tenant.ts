import { defineCommand } from "millrace";
import * as z from "zod";
import { batch } from "./queues.ts";

/** The command to delete all data of a tenant. The payload repeats the tenant's name, to prevent mistakes. */
export const TenantDelete = defineCommand({
  type: "tenant.delete",
  payload: z.object({
    tenant: z.string().min(1).max(64),
    asked_by: z.string().min(1).max(200),
    reason: z.string().min(1).max(500),
    request: z.string().min(1).max(100),
  }),
  key: ({ request }) => request,
  subject: ({ tenant }) => tenant,
  queue: batch,
  // The deletion is irreversible, so no schedule and no other message sends this command.
  access: { scope: null, route: "POST /v1/tenant/delete" },
});
