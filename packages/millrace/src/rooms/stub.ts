import { objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { objectName, type RoomName } from "./room-name.ts";
import type { RoomObject } from "./room-object.ts";

/** The environment of a Worker with rooms. The class from `roomObject` is bound as ROOMS, or is only exported as `Rooms`. */
export type RoomEnv = object & { ROOMS?: DurableObjectNamespace<RoomObject> };

/** The RPC interface of a room's object. The type lists each method, because the mapped types of Workers RPC do not preserve the class. */
export interface RoomStub extends Pick<DurableObjectStub, "fetch"> {
  send(...args: Parameters<RoomObject["send"]>): ReturnType<RoomObject["send"]>;
  look(): Promise<ReturnType<RoomObject["look"]>>;
  dismiss(name: string, reason: string): Promise<number>;
  erase(): Promise<void>;
}

/** Returns the stub of a room's Durable Object. */
export function roomObjectOf(env: RoomEnv, name: RoomName): RoomStub {
  return objectBinding<RoomObject>(env, "ROOMS").getByName(objectName(name), placed(env)) as unknown as RoomStub;
}
