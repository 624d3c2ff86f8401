import { objectNameOf, partsOf } from "../contract/object-name.ts";

/** Which room: each has an object of its own. */
export interface RoomName {
  room: string;
  tenant: string;
  key: string;
}

/** Longest key of a room, in characters. */
export const MAX_ROOM_KEY_CHARACTERS = 200;

/** The name of a room's object. */
export function objectName({ room, tenant, key }: RoomName): string {
  return objectNameOf([room, tenant, key]);
}

/** The reverse of `objectName`; undefined for anything it did not write. */
export function roomNameOf(name: string | undefined): RoomName | undefined {
  const [room, tenant, key] = partsOf(name, 3) ?? [];
  return typeof room === "string" && typeof tenant === "string" && typeof key === "string" ? { room, tenant, key } : undefined;
}
