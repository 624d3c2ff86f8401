import * as z from "zod";
import type { RoomMessage } from "./history.ts";
import { MAX_ROOM_KEY_CHARACTERS } from "./room-name.ts";

/** A frame from a room to a client, as JSON. */
export type RoomFrame =
  | {
      type: "welcome";
      /** The name of the client that joined. */
      you: string;
      /** The sequence number of the room's last message. A client that joins again passes this number as `since`. */
      sequence: number;
      /** The messages before the join, in order. If the client passed `since`, only the messages after `since`. */
      messages: RoomMessage[];
      /** True if `messages` lacks some of the messages that followed `since`. */
      missed: boolean;
      /** The number of clients in the room, including the client that joined, and up to 500 of their names. */
      present: { count: number; names: string[] };
    }
  /** `key`: the key of a message that this client sent with a key. */
  | ({ type: "message"; key?: string } & RoomMessage)
  | { type: "joined" | "left"; who: string }
  /** The client's message was refused. The socket stays open. */
  | { type: "refused"; code: string; message: string; key?: string };

/** The schema of a frame from a client: a message, and a key if the client wants to be able to repeat the message. */
export const saidSchema = z.strictObject({
  type: z.literal("send"),
  body: z.json(),
  key: z.string().min(1).max(MAX_ROOM_KEY_CHARACTERS).optional(),
});

/** The key of a refused frame; undefined for a frame without a valid key. */
export function keyIn(frame: string): string | undefined {
  try {
    return saidSchema.shape.key.safeParse(JSON.parse(frame)?.key).data;
  } catch {
    return undefined;
  }
}

/** Maximum length of the JSON escape of one byte, in bytes. For example, `\u0041` is an A. */
const MAX_ESCAPED_BYTES = 6;
/** Maximum size in bytes of the parts of a frame other than its message: field names, key and blanks. */
const AROUND_BYTES = 500;

/** Maximum size of a frame in bytes, which is enough for every valid message in any JSON notation (escapes and blanks). */
export function maxFrameBytes({ maxBytes }: { maxBytes: number }): number {
  return (maxBytes + 2 * MAX_ROOM_KEY_CHARACTERS + AROUND_BYTES) * MAX_ESCAPED_BYTES;
}

/**
 * Close codes of a socket. The WebSocket standard defines 1003 for unsupported data such as bytes, 1007 for invalid data, and 1009 for a
 * frame that is too large.
 */
export const CLOSE = { notText: 1003, notJson: 1007, tooLarge: 1009, tokenEnded: 4401, dismissed: 4403, tooFast: 4429 } as const;

/** Maximum length of a close reason, in bytes. */
const MAX_REASON_BYTES = 123;

export function reasonOf(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return bytes.length <= MAX_REASON_BYTES ? text : new TextDecoder().decode(bytes.slice(0, MAX_REASON_BYTES)).replace(/\ufffd+$/, "");
}
