import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { objectName, type RoomName } from "./room-name.ts";
import type { RoomObject } from "./room-object.ts";

/** The Worker of rooms has the Durable Object of `roomObject`, bound as ROOMS or only exported, as `Rooms`. */
export type RoomEnv = object & { ROOMS?: DurableObjectNamespace<RoomObject> };

/** A room's object as it is called. RPC's mapped types lose the class; the methods are its own. */
export interface RoomStub extends Pick<DurableObjectStub, "fetch"> {
  send(...args: Parameters<RoomObject["send"]>): ReturnType<RoomObject["send"]>;
  look(): Promise<ReturnType<RoomObject["look"]>>;
  dismiss(name: string, reason: string): Promise<number>;
  erase(): Promise<void>;
}

/** A room's object: to look at it and to steer it. */
export function roomObjectOf(env: RoomEnv, name: RoomName): RoomStub {
  return objectBinding<RoomObject>(env, "ROOMS").getByName(objectName(name), placed(env)) as unknown as RoomStub;
}
