import * as z from "zod";
import type { RoomMessage } from "./history.ts";
import { MAX_ROOM_KEY_CHARACTERS } from "./room-name.ts";

/** What a room says to a client, as JSON. */
export type RoomFrame =
  | {
      type: "welcome";
      /** Who you are here. */
      you: string;
      /** The number of the room's last message: what to say as `since` when you come again. */
      sequence: number;
      /** What was said before you came, or after `since`, in order. */
      messages: RoomMessage[];
      /** True when more was said after your `since` than `messages` holds. */
      missed: boolean;
      /** Who is here, you among them: all in number, some 500 by name. */
      present: { count: number; names: string[] };
    }
  /** `key` is yours, on the message that you sent under it. */
  | ({ type: "message"; key?: string } & RoomMessage)
  | { type: "joined" | "left"; who: string }
  /** What you sent was not taken; you may go on. */
  | { type: "refused"; code: string; message: string; key?: string };

/** What a client says: a message, with a key of its own if it may send it again. */
export const saidSchema = z.strictObject({
  type: z.literal("send"),
  body: z.json(),
  key: z.string().min(1).max(MAX_ROOM_KEY_CHARACTERS).optional(),
});

/** The key of a frame that is refused, where it has one that may be said back. */
export function keyIn(frame: string): string | undefined {
  try {
    return saidSchema.shape.key.safeParse(JSON.parse(frame)?.key).data;
  } catch {
    return undefined;
  }
}

/** What JSON can make of a byte: `\u0041` is an A. */
const MAX_ESCAPED_BYTES = 6;
/** The words around a message, its key and blanks. */
const AROUND_BYTES = 500;

/** Largest frame, in bytes: however a message that fits is written, it is read. */
export function maxFrameBytes({ maxBytes }: { maxBytes: number }): number {
  return (maxBytes + 2 * MAX_ROOM_KEY_CHARACTERS + AROUND_BYTES) * MAX_ESCAPED_BYTES;
}

/** Why a socket is closed, beside the codes of WebSocket itself: 1003 for bytes, 1007 for what is not JSON, 1009 for too much. */
export const CLOSE = { notText: 1003, notJson: 1007, tooLarge: 1009, tokenEnded: 4401, dismissed: 4403, tooFast: 4429 } as const;

/** Longest reason of a close, in bytes. */
const MAX_REASON_BYTES = 123;

/** A text cut to what a close may carry. */
export function reasonOf(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return bytes.length <= MAX_REASON_BYTES ? text : new TextDecoder().decode(bytes.slice(0, MAX_REASON_BYTES)).replace(/\ufffd+$/, "");
}
