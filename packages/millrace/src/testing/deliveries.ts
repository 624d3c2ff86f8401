import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import type { Envelope } from "../contract/envelope.ts";
import { instanceId as instanceIdOf } from "../contract/ids.ts";
import { newTrace } from "../contract/trace.ts";
import type { WorkflowDefinition } from "../workflow/workflow.ts";

/** Options of the function `messageFor`. */
export interface MessageOptions {
  /** The tenant of the message. Default: `test`. */
  readonly tenantId?: string;
  /**
   * The idempotency key of the message. Default: the key that the workflow derives from its input, or a new key if the workflow derives
   * none.
   */
  readonly idempotencyKey?: string;
}

/**
 * Creates a queue message that starts a workflow when `deliverTo` delivers it. Also returns the id of the instance that the message starts.
 */
export function messageFor<Input>(
  { name, on }: WorkflowDefinition<Input>,
  input: NoInfer<Input>,
  { tenantId = "test", idempotencyKey }: MessageOptions = {},
): { message: Envelope; instanceId: string } {
  const derived = "key" in on ? on.key?.(input) : undefined;
  const key = idempotencyKey ?? derived ?? crypto.randomUUID();
  const message: Envelope = {
    ...{ kind: on.kind, message_type: on.type, schema_version: on.version, payload_inline: input },
    ...{ tenant_id: tenantId, source: "test", idempotency_key: key, subject: on.subject?.(input) ?? key },
    ...{ correlation_id: crypto.randomUUID(), causation_id: "test", created_at: new Date().toISOString(), traceparent: newTrace() },
  };
  return { message, instanceId: instanceIdOf(tenantId, name, key) };
}

/** The counts of messages in a batch that a consumer acknowledged and that it returned for a retry. */
export interface Settled {
  acked: number;
  retried: number;
}

/**
 * Delivers a batch to a consumer, and returns how its messages were settled. Every delivery has a new id, because on the platform two
 * copies of a message have different ids.
 */
export async function deliverTo(
  consume: (batch: MessageBatch, ctx: ExecutionContext) => Promise<unknown>,
  queue: string,
  bodies: readonly unknown[],
  attempts = 1,
): Promise<Settled> {
  const batch = createMessageBatch(
    queue,
    bodies.map((body) => ({ id: crypto.randomUUID(), timestamp: new Date(), attempts, body })),
  );
  const ctx = createExecutionContext();
  await consume(batch, ctx);
  const result = await getQueueResult(batch, ctx);
  return {
    acked: result.ackAll ? bodies.length : result.explicitAcks.length,
    retried: result.retryBatch.retry ? bodies.length : result.retryMessages.length,
  };
}
