import { defineCommand } from "millrace";
import * as z from "zod";
import { batch } from "./queues.ts";

/** Delete everything that is kept of a tenant. It names the tenant once more, so that nobody deletes another one than they mean. */
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
  // It cannot be taken back: no schedule and no producer asks for it.
  door: { scope: null, route: "POST /v1/tenant/delete" },
});
