// Entry point `millrace/rooms`: live messages to people and programs.

export { roomOf } from "./client.ts";
export { defineRoom } from "./definition.ts";
export { roomObject } from "./room-object.ts";
export { roomTicket } from "./ticket.ts";
