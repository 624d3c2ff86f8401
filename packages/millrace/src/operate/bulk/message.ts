import * as z from "zod";
import { instanceId } from "../../contract/ids.ts";
import { defineCommand } from "../../contract/message.ts";
import { defineQueue } from "../../contract/queue.ts";

export const BULK_WORKFLOW = "bulk-action";

/**
 * The command that starts or continues a bulk action. The command is sent by `POST /v1/bulk-actions`, by the route `resume` of a bulk
 * action, and by the bulk action's previous instance.
 */
export const BulkActionRun = defineCommand({
  type: "bulk_action.run",
  payload: z.strictObject({ bulk_id: z.string().min(1).max(64), pass: z.int().min(1) }),
  key: ({ bulk_id, pass }) => `${bulk_id}/${pass}`,
  subject: ({ bulk_id }) => bulk_id,
  queue: defineQueue({ name: "bulk-actions" }),
  access: { scope: null, route: "POST /v1/bulk-actions" },
});

export function passInstance(tenantId: string, bulkId: string, pass: number): string {
  return instanceId(tenantId, BULK_WORKFLOW, BulkActionRun.key({ bulk_id: bulkId, pass }));
}
