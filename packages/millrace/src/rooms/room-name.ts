import { MillraceError } from "../contract/errors.ts";
import { objectNameOf, partsOf } from "../contract/object-name.ts";
import { checkedTenant } from "../contract/tenant.ts";
import { characterCount } from "../contract/text.ts";

/** Identifies one room. Each room has its own object. */
export interface RoomName {
  room: string;
  tenant: string;
  key: string;
}

/** Maximum length of a room's key, in characters. */
export const MAX_ROOM_KEY_CHARACTERS = 200;

/** Returns the given name if it is valid. Errors: `invalid_payload` for an invalid key or tenant. */
export function checkedRoomName({ room, tenant, key }: RoomName): RoomName {
  return { room, tenant: checkedTenant(tenant), key: checkedText(room, "key", key, MAX_ROOM_KEY_CHARACTERS) };
}

/** Checks a string that a caller passes to a room. Errors: `invalid_payload`, with the field's name. */
export function checkedText(room: string, path: string, text: string, most: number): string {
  if (text !== "" && characterCount(text) <= most && text.isWellFormed()) return text;
  const message = `must be a well-formed text of 1 to ${most} characters`;
  throw new MillraceError("invalid_payload", `The ${path} for the room "${room}" ${message}.`, { issues: [{ path, message }] });
}

export function objectName({ room, tenant, key }: RoomName): string {
  return objectNameOf([room, tenant, key]);
}

/** Parses the name that `objectName` made; undefined for a name in another format. */
export function roomNameOf(name: string | undefined): RoomName | undefined {
  const [room, tenant, key] = partsOf(name, 3) ?? [];
  return typeof room === "string" && typeof tenant === "string" && typeof key === "string" ? { room, tenant, key } : undefined;
}
