import * as z from "zod";
import { byteLength } from "../contract/limits.ts";
import { MAX_ROOM_KEY_CHARACTERS, type RoomPlan } from "./definition.ts";

/** The message's number in the room, and whether the room remembered its key. A message with a remembered key is not stored again. */
export interface RoomSent {
  sequence: number;
  duplicate: boolean;
}

/** A message of a room. */
export interface RoomMessage {
  /** The number of a message in the room: one more than the number of the previous message. */
  sequence: number;
  /** The author of the message: the actor of a token, or a guest's name. Null means that the app sent the message. */
  from: string | null;
  /** The time when the message was sent, in milliseconds since 1970. */
  at: number;
  body: unknown;
}

/** A message that is sent to the room. */
export interface RoomPost {
  from: string | null;
  /** The body as JSON. */
  text: string;
  key: string | null;
}

interface Row extends Record<string, SqlStorageValue> {
  sequence: number;
  sender: string | null;
  at: number;
  body: string;
}

const SCHEMA = `CREATE TABLE IF NOT EXISTS room_messages (
  slot INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, sender TEXT, at INTEGER NOT NULL, key TEXT, body TEXT NOT NULL)`;

/**
 * The room remembers the keys of this factor times as many messages as its history has, because a step may retry after further messages.
 */
const REMEMBERED_TIMES = 4;
const LEAST_REMEMBERED = 200;

/** The latest messages of a room. When the maximum number of rows is stored, a new message overwrites the row of the oldest message. */
export class RoomHistory {
  readonly #sql: SqlStorage;
  #made: boolean;
  #last = 0;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#made = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'room_messages'").toArray().length > 0;
    if (!this.#made) return;
    this.#last = sql.exec<{ last: number }>("SELECT coalesce(max(sequence), 0) AS last FROM room_messages").one().last;
  }

  /** The number of the room's latest message; 0 if the room has no message. */
  get last(): number {
    return this.#last;
  }

  /** Stores a message unless the room remembers its key. */
  keep({ from, text, key }: RoomPost, { history }: RoomPlan, at: number): RoomSent {
    if (!this.#made) this.#sql.exec(SCHEMA);
    this.#made = true;
    const known = key === null ? undefined : this.#sequenceOf(key);
    if (known !== undefined) return { sequence: known, duplicate: true };
    const sequence = this.#last + 1;
    const slot = sequence % Math.max(LEAST_REMEMBERED, history.messages * REMEMBERED_TIMES);
    const keep = `INSERT INTO room_messages (slot, sequence, sender, at, key, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (slot) DO UPDATE
      SET sequence = excluded.sequence, sender = excluded.sender, at = excluded.at, key = excluded.key, body = excluded.body`;
    this.#sql.exec(keep, slot, sequence, from, at, key, text);
    this.#last = sequence;
    return { sequence, duplicate: false };
  }

  /** The message with a number; undefined if it is no longer stored. */
  find(sequence: number): RoomMessage | undefined {
    const sql = "SELECT sequence, sender, at, body FROM room_messages WHERE sequence = ?";
    return this.#sql.exec<Row>(sql, sequence).toArray().map(read)[0];
  }

  /**
   * The messages after the number `since` in ascending order, within the room's history limits. `missed` is true if some messages are
   * missing because of the limits.
   */
  after(since: number | undefined, { history }: RoomPlan): { messages: RoomMessage[]; missed: boolean } {
    const from = since === undefined || since > this.#last ? 0 : since;
    const messages: RoomMessage[] = [];
    let bytes = 0;
    if (this.#made && from < this.#last) {
      const sql = "SELECT sequence, sender, at, body FROM room_messages WHERE sequence > ? ORDER BY sequence DESC LIMIT ?";
      for (const row of this.#sql.exec<Row>(sql, from, history.messages)) {
        bytes += byteLength(row.body);
        if (bytes > history.bytes) break;
        messages.unshift(read(row));
      }
    }
    const told = this.#last - messages.length;
    return { messages, missed: since !== undefined && (since > this.#last || told > from) };
  }

  #sequenceOf(key: string): number | undefined {
    return this.#sql.exec<Row>("SELECT sequence FROM room_messages WHERE key = ?", key).toArray()[0]?.sequence;
  }
}

function read({ sequence, sender, at, body }: Row): RoomMessage {
  return { sequence, from: sender, at, body: JSON.parse(body) };
}

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
