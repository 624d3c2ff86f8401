import type { ZodType } from "zod";
import { assertDeclared, isFields, isSchema } from "../contract/declared.ts";
import { checkedTenant } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { objectNameOf, partsOf } from "../contract/object-name.ts";
import { characterCount } from "../contract/text.ts";
import { isScope } from "../contract/token.ts";

/** The definition of a kind of rooms. Each room has a key, and the clients in a room receive the room's messages immediately. */
export interface RoomDefinition<Body = unknown> {
  /**
   * The name of the kind of rooms: at most 63 lower case letters, digits and dashes; the first character is a letter. The name is part of
   * the rooms' URL.
   */
  name: string;
  scopes?: {
    /** The scope that a token needs to join. Default: `read`. */
    join?: string;
    /** The scope that a token needs to send; null if only Workers and steps send. Default: null. */
    send?: string | null;
  };
  /** The schema of the messages that clients send. Default: any JSON. */
  message?: ZodType<Body>;
  /** Maximum size of a message from any sender, in bytes of JSON. Default: 16 KB; at most 128 KB. */
  maxBytes?: number;
  /**
   * Rate limit of the frames that one socket may send: the size of a burst, and frames per second. Default: a burst of 10, and 5 per
   * second; each at most 10,000.
   */
  rate?: { burst: number; perSecond: number };
  /**
   * The maximum number and size of earlier messages that a joining client gets. Default: 50 messages and 256 KB; at most 500 messages and 1
   * MB.
   */
  history?: { messages?: number; bytes?: number };
  /**
   * Origins from which browsers may connect, in addition to the origin of the room's URL, such as `https://console.example.com`. Default:
   * none.
   */
  origins?: readonly string[];
  /**
   * Maximum number of sockets in a room with which each socket is notified of joins and leaves; 0 turns these notices off. Default: 100.
   */
  presence?: number;
  /** Maximum number of sockets in one room. Default: 10,000; at most 30,000. */
  maxSockets?: number;
  /**
   * Maximum number of sockets with the same name in a room. The name is the actor of a token or the name on a ticket. Default: 100; at most
   * 30,000.
   */
  maxSocketsPerName?: number;
}

/** A kind of rooms with any message type, for lists of rooms. */
export type AnyRoom = RoomDefinition<unknown>;

/** A room definition with all defaults filled in. */
export interface RoomPlan {
  name: string;
  join: string;
  send: string | null;
  message: ZodType | undefined;
  maxBytes: number;
  rate: { burst: number; perSecond: number };
  history: { messages: number; bytes: number };
  origins: ReadonlySet<string>;
  presence: number;
  maxSockets: number;
  maxSocketsPerName: number;
}

const DEFAULT_ROOM = {
  scopes: { join: "read", send: null },
  maxBytes: 16 * 1024,
  rate: { burst: 10, perSecond: 5 },
  history: { messages: 50, bytes: 256 * 1024 },
  presence: 100,
  maxSockets: 10_000,
  maxSocketsPerName: 100,
} as const;

/**
 * The maximum values of a definition's numbers. The history is sent as one frame at the join, and a Durable Object accepts about 32,000
 * sockets.
 */
const MOST = { maxBytes: 128 * 1024, rate: 10_000, messages: 500, bytes: 1024 * 1024, maxSockets: 30_000 };
const NAME = /^[a-z][a-z0-9-]{0,62}$/;

export function defineRoom<Body = unknown>(definition: RoomDefinition<Body>): RoomDefinition<Body> {
  return definition;
}

/** The definitions of kinds of rooms with all defaults, by name. Errors: `config_invalid`, also for two kinds with the same name. */
export function plansOf(rooms: readonly AnyRoom[]): ReadonlyMap<string, RoomPlan> {
  const plans = new Map(rooms.map((room) => [room.name, planOf(room)]));
  if (plans.size === rooms.length) return plans;
  const twice = rooms.find(({ name }, at) => rooms.findIndex((other) => other.name === name) !== at);
  throw new MillraceError("config_invalid", `Two kinds of rooms are called "${twice?.name}": rename one of them.`);
}

function planOf(room: AnyRoom): RoomPlan {
  const plan = {
    ...DEFAULT_ROOM,
    ...room,
    ...DEFAULT_ROOM.scopes,
    ...room.scopes,
    message: room.message,
    history: { ...DEFAULT_ROOM.history, ...room.history },
    origins: new Set(room.origins),
  };
  const check = (value: number, least: number, most: number, what: string): void => {
    if (Number.isInteger(value) && value >= least && value <= most) return;
    throw new MillraceError("config_invalid", `The room "${room.name}" has ${what} ${value}: set ${least} to ${most}.`);
  };
  if (!NAME.test(room.name)) {
    const name = "needs a name of lower case letters, digits and dashes, at most 63, that begins with a letter.";
    throw new MillraceError("config_invalid", `The room "${room.name}" ${name}`);
  }
  assertDeclared(
    plan.message === undefined || isSchema(plan.message),
    `The room "${room.name}" has an invalid message schema: pass a zod 4 schema, or none.`,
  );
  assertDeclared(
    isFields(room.history ?? {}),
    `The room "${room.name}" has history ${String(room.history)}: set { messages, bytes }, or one of both.`,
  );
  check(plan.maxBytes, 1, MOST.maxBytes, "maxBytes");
  check(plan.history.messages, 0, MOST.messages, "history.messages");
  check(plan.history.bytes, 0, MOST.bytes, "history.bytes");
  check(plan.rate.burst, 1, MOST.rate, "rate.burst");
  if (!(plan.rate.perSecond > 0 && plan.rate.perSecond <= MOST.rate)) {
    const rate = `rate.perSecond ${plan.rate.perSecond}: set more than 0, at most ${MOST.rate}.`;
    throw new MillraceError("config_invalid", `The room "${room.name}" has ${rate}`);
  }
  check(plan.presence, 0, MOST.maxSockets, "presence");
  check(plan.maxSockets, 1, MOST.maxSockets, "maxSockets");
  check(plan.maxSocketsPerName, 1, MOST.maxSockets, "maxSocketsPerName");
  const odd = [plan.join, plan.send].find((scope) => scope !== null && !isScope(scope));
  if (odd !== undefined) {
    const scope = `the scope "${odd}", which no token can have: set one word in lower case.`;
    throw new MillraceError("config_invalid", `The room "${room.name}" has ${scope}`);
  }
  for (const origin of plan.origins) {
    if (URL.canParse(origin) && new URL(origin).origin === origin) continue;
    throw new MillraceError(
      "config_invalid",
      `The room "${room.name}" has the origin "${origin}": set an origin such as https://console.example.com.`,
    );
  }
  return plan;
}

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
