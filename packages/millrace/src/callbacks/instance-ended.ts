import * as z from "zod";
import { MAX_ADDRESS_CHARACTERS } from "../contract/address-guard.ts";
import { defineEvent } from "../contract/message.ts";
import { defineQueue } from "../contract/queue.ts";
import { OVER } from "../store/instances/status.ts";

/** The workflow that calls the address which a command has named. */
export const SEND_CALLBACK = "send-callback";

const at = z.iso.datetime();

/**
 * A run of an instance has ended, and an address is to hear of it: what it is told, and the address. No payload, no result and no message
 * of an error: whoever may read them asks for the instance. It travels on no queue: its instance is accepted and started as it is made.
 */
export const InstanceEnded = defineEvent({
  type: "instance.ended",
  payload: z.object({
    callback_url: z.string().max(MAX_ADDRESS_CHARACTERS),
    instance_id: z.string(),
    /** Which of its runs: an operator's retry or undo begins the next one. */
    run: z.int(),
    status: z.enum(OVER.values as [string, ...string[]]),
    workflow: z.string(),
    message_type: z.string(),
    idempotency_key: z.string(),
    correlation_id: z.string(),
    subject: z.string(),
    /** The step that failed, and the code; null for a run that did not fail. */
    error: z.object({ step: z.string(), code: z.string() }).nullable(),
    /** True when the undo of the instance is complete. */
    undone: z.boolean(),
    accepted_at: at,
    ended_at: at,
  }),
  subject: ({ instance_id }) => instance_id,
  queue: defineQueue({ name: "callbacks" }),
});

/** The name of an end: the key of its call, and what a receiver knows it by. */
export function nameOfEnd({ id, run, status }: { readonly id: string; readonly run: number; readonly status: string }): string {
  return `${id}-${run}-${status}`;
}

export type EndNotice = z.infer<typeof InstanceEnded.payload>;
