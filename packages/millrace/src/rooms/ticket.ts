import * as z from "zod";
import { chosenName, isVisible } from "../contract/chosen-name.ts";
import { firstOf, issuesOf } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { sealed, unsealed } from "../contract/sealed.ts";
import type { RoomDefinition } from "./definition.ts";
import { checkedRoomName, type RoomName } from "./room-name.ts";

/** Who may come into a room. */
export interface RoomGuest {
  /** What the others see: 1 to 100 characters, of which one can be seen. */
  name: string;
  /** Default: false. */
  maySend?: boolean | undefined;
  /** When they have to leave, in milliseconds since 1970. Default: never. */
  until?: number | null | undefined;
}

const MAX_GUEST_NAME_CHARACTERS = 100;

/** A ticket opens a socket within so much of its minting. */
const TICKET_VALID_MS = 30_000;

const ticketSchema = z.strictObject({
  room: z.string(),
  tenant: z.string(),
  key: z.string(),
  name: chosenName(MAX_GUEST_NAME_CHARACTERS).refine(isVisible, "must have a character that can be seen"),
  maySend: z.boolean(),
  until: z.number().nullable(),
  expires: z.number(),
});

/**
 * A ticket to a tenant's room, for somebody whom the app itself knows: it opens sockets of this room for 30 seconds, as the WebSocket
 * subprotocol `ticket.<text>` beside `millrace.room`. Nothing is stored for it. Errors: `config_invalid` without MILLRACE_KEY;
 * `invalid_payload` for a key, a tenant, a name or an `until` that cannot be.
 */
export function roomTicket(
  env: { MILLRACE_KEY: string },
  room: Pick<RoomDefinition, "name">,
  key: string,
  tenant: string,
  { name, maySend = false, until = null }: RoomGuest,
): string {
  const at = checkedRoomName({ room: room.name, tenant, key });
  const ticket = ticketSchema.safeParse({ ...at, name, maySend, until, expires: Date.now() + TICKET_VALID_MS });
  if (!ticket.success) {
    const issues = issuesOf(ticket.error);
    throw new MillraceError("invalid_payload", `No ticket to the room "${room.name}": ${firstOf(issues, "the guest")}.`, { issues });
  }
  return sealed(env.MILLRACE_KEY, "room ticket", ticket.data);
}

/** Who comes by a ticket, and into which room; undefined for one that is not good, or no longer. */
export function readTicket(env: { MILLRACE_KEY: string }, ticket: string): (RoomName & Required<RoomGuest>) | undefined {
  const ticketed = ticketSchema.safeParse(unsealed(env.MILLRACE_KEY, "room ticket", ticket));
  if (!ticketed.success || ticketed.data.expires <= Date.now()) return undefined;
  const { expires: _, ...guest } = ticketed.data;
  return guest;
}
