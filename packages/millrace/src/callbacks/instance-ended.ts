import * as z from "zod";
import { MAX_ADDRESS_CHARACTERS } from "../contract/address-guard.ts";
import { defineEvent } from "../contract/message.ts";
import { defineQueue } from "../contract/queue.ts";
import { OVER } from "../store/instances/status.ts";

const at = z.iso.datetime();

/**
 * Reports to the address of a callback that a run of an instance has ended. The callback contains no payload, result or error message,
 * because authorized callers read these from the API. The event uses no queue, because the instance that sends the callback is accepted and
 * started directly.
 */
export const InstanceEnded = defineEvent({
  type: "instance.ended",
  payload: z.object({
    callback_url: z.string().max(MAX_ADDRESS_CHARACTERS),
    instance_id: z.string(),
    /** The number of the run. An operator's retry or undo starts the run with the next number. */
    run: z.int(),
    status: z.enum(OVER.values as [string, ...string[]]),
    workflow: z.string(),
    message_type: z.string(),
    idempotency_key: z.string(),
    correlation_id: z.string(),
    subject: z.string(),
    /** The failed step and the error code; null for a run that did not fail. */
    error: z.object({ step: z.string(), code: z.string() }).nullable(),
    /** True when the undo of the instance is complete. */
    undone: z.boolean(),
    accepted_at: at,
    ended_at: at,
  }),
  subject: ({ instance_id }) => instance_id,
  queue: defineQueue({ name: "callbacks" }),
});

/** The id of an instance's end, which is the idempotency key of the callback and the `webhook-id` that the receiver gets. */
export function nameOfEnd({ id, run, status }: { readonly id: string; readonly run: number; readonly status: string }): string {
  return `${id}-${run}-${status}`;
}

export type EndNotice = z.infer<typeof InstanceEnded.payload>;
