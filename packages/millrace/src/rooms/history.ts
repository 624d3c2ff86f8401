import { byteLength } from "../contract/limits.ts";
import type { RoomPlan } from "./definition.ts";

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
