import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { objectName, type PullName } from "./pull-name.ts";
import type { PullObject } from "./pull-object.ts";

/** The Worker of pull queues has the Durable Object of `pullObject`, bound as PULL_QUEUES or only exported, as `PullQueues`. */
export type PullEnv = object & { PULL_QUEUES?: DurableObjectNamespace<PullObject> };

type DurableObjectBase = import("cloudflare:workers").DurableObject;

/** A queue's object as it is called. RPC's mapped types lose the class; the methods are its own. */
export type PullStub = {
  [Name in Exclude<keyof PullObject, keyof DurableObjectBase>]: (
    ...args: Parameters<PullObject[Name]>
  ) => Promise<Awaited<ReturnType<PullObject[Name]>>>;
};

/** A queue's object: to look at it and to steer it. One that was never sent anything is empty. */
export function pullObjectOf(env: PullEnv, name: PullName): PullStub {
  return objectBinding<PullObject>(env, "PULL_QUEUES").getByName(objectName(name), placed(env)) as unknown as PullStub;
}
