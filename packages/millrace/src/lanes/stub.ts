import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { type LaneName, objectName } from "./lane-name.ts";
import type { LaneObject } from "./lane-object.ts";

/** The environment of a Worker with lanes: the Durable Object of `laneObject`, bound as LANES or only exported as `Lanes`. */
export type LaneEnv = object & { LANES?: DurableObjectNamespace<LaneObject> };

/** The RPC interface of a lane's object. The type is written out, because the mapped types of Workers RPC lose the class. */
export type LaneStub = {
  [Name in Exclude<keyof LaneObject, keyof DurableObjectBase>]: (
    ...args: Parameters<LaneObject[Name]>
  ) => Promise<Awaited<ReturnType<LaneObject[Name]>>>;
};
type DurableObjectBase = import("cloudflare:workers").DurableObject;

/**
 * The object of a lane. Callers use the object to send messages, to read the lane, and to operate the lane. A lane without a tenant has
 * `tenant: null`. The form `{ object }` takes an object's id from a log line (`lane_gave_up`). The `look()` of that object returns the
 * lane's name, tenant and key.
 */
export function laneObjectOf(env: LaneEnv, name: LaneName | { readonly object: string }): LaneStub {
  const lanes = objectBinding<LaneObject>(env, "LANES");
  const stub = "object" in name ? lanes.get(lanes.idFromString(name.object)) : lanes.getByName(objectName(name), placed(env));
  return stub as unknown as LaneStub;
}
