import { objectBinding } from "../contract/bindings.ts";
import { checkedTenant } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { objectName, type PullName, type PullQueueDefinition } from "./definition.ts";
import { type PullMessage, type PullSendOptions, type PullSent, postedBatch } from "./message.ts";
import type { PullObject } from "./pull-object.ts";

/**
 * The environment of a Worker with pull queues: the Durable Object of `pullObject`, bound as PULL_QUEUES, or exported as `PullQueues`
 * without a binding.
 */
export type PullEnv = object & { PULL_QUEUES?: DurableObjectNamespace<PullObject> };

type DurableObjectBase = import("cloudflare:workers").DurableObject;

/**
 * The RPC interface of a queue's object. The type lists the methods, because the mapped types of Workers RPC lose the type of the class.
 */
export type PullStub = {
  [Name in Exclude<keyof PullObject, keyof DurableObjectBase>]: (
    ...args: Parameters<PullObject[Name]>
  ) => Promise<Awaited<ReturnType<PullObject[Name]>>>;
};

/** The Durable Object of a pull queue, for code that reads or operates the queue. A queue that was never used appears as empty. */
export function pullObjectOf(env: PullEnv, name: PullName): PullStub {
  return objectBinding<PullObject>(env, "PULL_QUEUES").getByName(objectName(name), placed(env)) as unknown as PullStub;
}

/** The sender's interface to a tenant's pull queue. */
interface PullQueueClient<Body> {
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
