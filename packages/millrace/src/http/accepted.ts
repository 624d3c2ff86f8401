import type { Context } from "hono";
import * as z from "zod";
import { isoOrNull, timestamp } from "../contract/row.ts";
import type { Accepted } from "../intake/accept/enqueue.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";

export const instanceStatus = z
  .enum([...INSTANCE_STATUSES, "pruned"])
  .describe(
    "The status of the instance with this key. A repeat of its command starts nothing, even if the instance is `errored`, `terminated`, `dead` or `skipped`. `pruned`: the instance ended and was removed by retention.",
  );

export const acceptedShape = {
  instance_id: z.string(),
  replayed: z.boolean().describe("True for a repeat: the command was accepted before, and nothing new started."),
  instance_status: instanceStatus,
  due_at: z
    .nullable(timestamp)
    .describe("When a delayed command is due. Null without a delay, and for a repeat after the instance has ended."),
  correlation_id: z.string(),
};

/** Sets the header `Location`. */
export function answerAccepted(context: Pick<Context, "header">, accepted: Accepted) {
  context.header("location", `/v1/instances/${accepted.instanceId}`);
  return acceptedView(accepted);
}

export function acceptedView({ instanceId, replayed, status, dueAt, correlationId }: Accepted) {
  return { instance_id: instanceId, replayed, instance_status: status, due_at: isoOrNull(dueAt), correlation_id: correlationId };
}
