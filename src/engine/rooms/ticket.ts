import { timingSafeEqual } from "node:crypto";
import * as z from "zod";
import { signed } from "../contract/ids.ts";
import type { RoomDefinition } from "./definition.ts";
import type { RoomName } from "./room-name.ts";

/** Who may come into a room. */
export interface RoomGuest {
  /** What the others see: 1 to 100 characters. */
  name: string;
  /** Default: false. */
  maySend?: boolean | undefined;
  /** When they have to leave, in milliseconds since 1970. Default: never. */
  until?: number | null | undefined;
}

/** A ticket opens a socket within so much of its minting. */
const TICKET_VALID_MS = 30_000;

const ticketSchema = z.strictObject({
  room: z.string(),
  tenant: z.string(),
  key: z.string(),
  name: z.string(),
  maySend: z.boolean(),
  until: z.number().nullable(),
  expires: z.number(),
});

/**
 * A ticket to a tenant's room, for somebody whom the app itself knows: it opens sockets of this room for 30 seconds, as the WebSocket
 * subprotocol `ticket.<text>` beside `millrace.room`. Nothing is stored for it. Errors: `config_invalid` without MILLRACE_KEY.
 */
export function roomTicket(
  env: { MILLRACE_KEY: string },
  room: Pick<RoomDefinition, "name">,
  key: string,
  tenant: string,
  { name, maySend = false, until = null }: RoomGuest,
): string {
  const ticket: z.infer<typeof ticketSchema> = {
    room: room.name,
    tenant,
    key,
    name,
    maySend,
    until,
    expires: Date.now() + TICKET_VALID_MS,
  };
  const text = Buffer.from(JSON.stringify(ticket)).toString("base64url");
  return `${text}.${signed(env.MILLRACE_KEY, "room ticket", text)}`;
}

/** Who comes by a ticket, and into which room; undefined for one that is not good, or no longer. */
export function readTicket(env: { MILLRACE_KEY: string }, ticket: string): (RoomName & Required<RoomGuest>) | undefined {
  const [text = "", proof = ""] = ticket.split(".");
  const [said, expected] = [Buffer.from(proof), Buffer.from(signed(env.MILLRACE_KEY, "room ticket", text))];
  if (said.length !== expected.length || !timingSafeEqual(said, expected)) return undefined;
  const { expires, ...guest } = ticketSchema.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
  return expires > Date.now() ? guest : undefined;
}
