import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { objectName, type PullName } from "./pull-name.ts";
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
