import { objectBinding } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { assertFewItems, byteLength } from "../contract/limits.ts";
import { placed } from "../contract/location.ts";
import { jsonOf } from "../contract/plain.ts";
import { checkedRoomName, checkedText, MAX_ROOM_KEY_CHARACTERS, objectName, type RoomDefinition, type RoomName } from "./definition.ts";
import type { RoomSent } from "./history.ts";
import type { RoomObject } from "./room-object.ts";

export interface RoomSendOptions {
  /**
   * The key that identifies the message. A message that is sent while the room remembers the same key is a duplicate. A key has 1 to 200
   * characters.
   */
  idempotencyKey?: string | undefined;
  /** The name of the message's author. Default: null, which means that the app is the author. */
  from?: string | null | undefined;
}

/** A room's interface for Workers and steps. */
export interface RoomClient<Body> {
  /**
   * Sends a message to all clients in the room. The message is stored when the promise resolves. Errors: `payload_too_large` for a message
   * larger than the room's `maxBytes`; `invalid_payload`; `config_invalid` if the Durable Object's list does not contain the kind of room.
   */
  send(body: Body, options?: RoomSendOptions): Promise<RoomSent>;
  /**
   * Closes all sockets of the clients with this name in the room, and returns the number of closed sockets. A client can join again unless
   * its token is revoked.
   */
  dismiss(name: string, reason?: string): Promise<number>;
}

/**
 * Returns the interface to a tenant's room. The room's key has 1 to 200 characters. Errors: `invalid_payload` for an invalid key or tenant.
 */
export function roomOf<Body>(env: RoomEnv, room: RoomDefinition<Body>, key: string, tenant: string): RoomClient<Body> {
  const at = checkedRoomName({ room: room.name, tenant, key });
  return {
    async send(body, { idempotencyKey, from = null } = {}) {
      const text = bodyAsJson(room.name, body);
      const given = idempotencyKey ?? null;
      const name = given === null ? null : checkedText(room.name, "idempotencyKey", given, MAX_ROOM_KEY_CHARACTERS);
      const answer = await roomObjectOf(env, at).send({ from, text, key: name });
      if ("sent" in answer) return answer.sent;
      if ("unknownRoom" in answer) {
        const said = `The object ROOMS has no room "${room.name}". Add it to the list of roomObject([…]), and deploy that.`;
        throw new MillraceError("config_invalid", said);
      }
      const said = `A message for the room "${room.name}" has ${byteLength(text)} bytes, and the limit is ${answer.maxBytes}.`;
      throw new MillraceError("payload_too_large", `${said} Store it, and send a reference to it.`);
    },
    dismiss: (name, reason = "Dismissed.") => roomObjectOf(env, at).dismiss(name, reason),
  };
}

function bodyAsJson(room: string, body: unknown): string {
  const { text, why } = jsonOf(body);
  if (text !== undefined) {
    assertFewItems(text, { at: "body" });
    return text;
  }
  const message = `has no JSON: ${why}`;
  throw new MillraceError("invalid_payload", `A message for the room "${room}" ${message}.`, { issues: [{ path: "body", message }] });
}

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
