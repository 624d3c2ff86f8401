import { placed } from "../contract/location.ts";
import { type LaneName, objectName } from "./lane-name.ts";
import type { LaneObject } from "./lane-object.ts";

/** What lanes need of a Worker's env: the Durable Object of `laneObject`, bound as LANES. */
export interface LaneEnv {
  LANES: DurableObjectNamespace<LaneObject>;
}

/** A lane's object as it is called. RPC's mapped types lose the class; the methods are its own. */
export type LaneStub = {
  [Name in Exclude<keyof LaneObject, keyof DurableObjectBase>]: (
    ...args: Parameters<LaneObject[Name]>
  ) => Promise<Awaited<ReturnType<LaneObject[Name]>>>;
};
type DurableObjectBase = import("cloudflare:workers").DurableObject;

/** A lane's object: to send to it, to look at it, to steer it. A lane that was never sent anything is empty. */
export function laneObjectOf(env: LaneEnv, name: LaneName): LaneStub {
  return env.LANES.getByName(objectName(name), placed(env)) as unknown as LaneStub;
}
