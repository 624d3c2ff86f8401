import * as z from "zod";
import { chosenName, isVisible } from "../contract/chosen-name.ts";
import { firstOf, issuesOf } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { sealed, unsealed } from "../contract/token.ts";
import { checkedRoomName, type RoomDefinition, type RoomName } from "./definition.ts";

/** A guest whom the app admits to a room. */
export interface RoomGuest {
  /** The guest's name that other clients see: 1 to 100 characters, at least one of which is visible. */
  name: string;
  /** True if the guest may send messages. Default: false. */
  maySend?: boolean | undefined;
  /** When the guest must leave, in milliseconds since 1970. Default: never. */
  until?: number | null | undefined;
}

const MAX_GUEST_NAME_CHARACTERS = 100;

/** How long a new ticket can open a socket, in milliseconds. */
const TICKET_VALID_MS = 30_000;

const ticketSchema = z.strictObject({
  room: z.string(),
  tenant: z.string(),
  key: z.string(),
  name: chosenName(MAX_GUEST_NAME_CHARACTERS).refine(isVisible, "must have a visible character"),
  maySend: z.boolean(),
  until: z.number().nullable(),
  expires: z.number(),
});

/**
 * Creates a ticket to a tenant's room for a guest that the app authenticates. For 30 seconds a client can open sockets of this room with
 * the WebSocket subprotocols `ticket.<text>` and `millrace.room`. The ticket has a signature and is not stored. Errors: `config_invalid`
 * without MILLRACE_KEY; `invalid_payload` for an invalid key, tenant, name or `until`.
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

/** The guest and room of a ticket; undefined for an invalid or expired ticket. */
export function readTicket(env: { MILLRACE_KEY: string }, ticket: string): (RoomName & Required<RoomGuest>) | undefined {
  const ticketed = ticketSchema.safeParse(unsealed(env.MILLRACE_KEY, "room ticket", ticket));
  if (!ticketed.success || ticketed.data.expires <= Date.now()) return undefined;
  const { expires: _, ...guest } = ticketed.data;
  return guest;
}

/** An authenticated client that joins a room, in the form that the route passes to the room's object. */
export interface Arrival {
  name: string;
  maySend: boolean;
  /** The time when the token expires, in milliseconds since 1970; null for a token that does not expire. */
  until: number | null;
  /** The sequence number of the last message that the client received. */
  since: number | undefined;
  /** The WebSocket subprotocol in the response to the client. */
  protocol: string | undefined;
}

/**
 * The header that contains the arrival as JSON, in the request to the room's object. Requests reach the object only through the binding, so
 * clients cannot set the header.
 */
export const ARRIVAL_HEADER = "millrace-arrival";
