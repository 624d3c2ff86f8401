import { MillraceError } from "../contract/errors.ts";
import { checkedTenant } from "../contract/tenant.ts";
import type { PullQueueDefinition } from "./definition.ts";
import { type PullMessage, type PullSendOptions, type PullSent, postedBatch } from "./message.ts";
import { type PullEnv, pullObjectOf } from "./stub.ts";

/** The sender's interface to a tenant's pull queue. */
export interface PullQueueClient<Body> {
  /** Sends a message. The message is stored when the promise resolves. Errors: as `sendBatch`. */
  send(body: Body, options?: PullSendOptions): Promise<PullSent>;
  /**
   * Sends up to 100 messages and 256 KB in one write, which stores all messages or none. Errors: `payload_too_large` for a larger batch,
   * and for a body above 128 KB; `invalid_payload`; `unavailable` if the queue is full; `config_invalid` if the Durable Object's list does
   * not contain the queue.
   */
  sendBatch(messages: readonly PullMessage<Body>[]): Promise<PullSent[]>;
}

/** Returns the client of a tenant's pull queue. Errors: `invalid_payload` for an invalid tenant name. */
export function pullQueueOf<Body>(env: PullEnv, queue: PullQueueDefinition<Body, never>, tenant: string): PullQueueClient<Body> {
  const name = { queue: queue.name, tenant: checkedTenant(tenant) };
  const sendBatch = async (messages: readonly PullMessage<Body>[]): Promise<PullSent[]> => {
    const posts = postedBatch(queue.name, messages);
    if (posts.length === 0) return [];
    const answer = await pullObjectOf(env, name).send(posts);
    if ("sent" in answer) return answer.sent;
    throw new MillraceError("unavailable", `The pull queue "${queue.name}" is full (${answer.full} bytes). Pull messages from it first.`);
  };
  return {
    async send(body, options) {
      const [sent] = await sendBatch([{ body, ...options }]);
      return sent as PullSent;
    },
    sendBatch,
  };
}
