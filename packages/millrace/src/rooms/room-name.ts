import { MillraceError } from "../contract/errors.ts";
import { objectNameOf, partsOf } from "../contract/object-name.ts";
import { checkedTenant } from "../contract/tenant.ts";
import { characterCount } from "../contract/text.ts";

/** Which room: each has an object of its own. */
export interface RoomName {
  room: string;
  tenant: string;
  key: string;
}

/** Longest key of a room, in characters. */
export const MAX_ROOM_KEY_CHARACTERS = 200;

/** The name of a room that can be. Errors: `invalid_payload` for another key, or for what is no tenant. */
export function checkedRoomName({ room, tenant, key }: RoomName): RoomName {
  return { room, tenant: checkedTenant(tenant), key: checkedText(room, "key", key, MAX_ROOM_KEY_CHARACTERS) };
}

/** A text that was chosen for a room. Errors: `invalid_payload`, with what it is called. */
export function checkedText(room: string, path: string, text: string, most: number): string {
  if (text !== "" && characterCount(text) <= most && text.isWellFormed()) return text;
  const message = `must be a well-formed text of 1 to ${most} characters`;
  throw new MillraceError("invalid_payload", `The ${path} for the room "${room}" ${message}.`, { issues: [{ path, message }] });
}

/** The name of a room's object. */
export function objectName({ room, tenant, key }: RoomName): string {
  return objectNameOf([room, tenant, key]);
}

/** The reverse of `objectName`; undefined for anything it did not write. */
export function roomNameOf(name: string | undefined): RoomName | undefined {
  const [room, tenant, key] = partsOf(name, 3) ?? [];
  return typeof room === "string" && typeof tenant === "string" && typeof key === "string" ? { room, tenant, key } : undefined;
}
