/** Which room: each has an object of its own. */
export interface RoomName {
  room: string;
  tenant: string;
  key: string;
}

/** Longest key of a room, in characters. */
export const MAX_ROOM_KEY_CHARACTERS = 200;

/** The name of a room's object: different rooms never share one. */
export function objectName({ room, tenant, key }: RoomName): string {
  return JSON.stringify([room, tenant, key]);
}

/** The reverse of `objectName`; undefined for anything it did not write. */
export function roomNameOf(name: string | undefined): RoomName | undefined {
  try {
    const [room, tenant, key] = JSON.parse(name ?? "");
    return [room, tenant, key].every((part) => typeof part === "string") ? { room, tenant, key } : undefined;
  } catch {
    return undefined;
  }
}
