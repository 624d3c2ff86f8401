import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { type LaneName, objectName } from "./lane-name.ts";
import type { LaneObject } from "./lane-object.ts";

/** The Worker of lanes has the Durable Object of `laneObject`, bound as LANES or only exported, as `Lanes`. */
export type LaneEnv = object & { LANES?: DurableObjectNamespace<LaneObject> };

/** A lane's object as it is called. RPC's mapped types lose the class; the methods are its own. */
export type LaneStub = {
  [Name in Exclude<keyof LaneObject, keyof DurableObjectBase>]: (
    ...args: Parameters<LaneObject[Name]>
  ) => Promise<Awaited<ReturnType<LaneObject[Name]>>>;
};
type DurableObjectBase = import("cloudflare:workers").DurableObject;

/**
 * A lane's object: to send to it, to look at it, to steer it. A lane that was never sent anything is empty; one that was sent to without a
 * tenant has `tenant: null`. `{ object }` is the one that a line of the log names (`lane_gave_up`): its `look()` says whose it is.
 */
export function laneObjectOf(env: LaneEnv, name: LaneName | { readonly object: string }): LaneStub {
  const lanes = objectBinding<LaneObject>(env, "LANES");
  const stub = "object" in name ? lanes.get(lanes.idFromString(name.object)) : lanes.getByName(objectName(name), placed(env));
  return stub as unknown as LaneStub;
}
