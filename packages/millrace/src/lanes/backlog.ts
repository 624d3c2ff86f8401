import type { Posted } from "./message.ts";

export interface Kept {
  sequence: number;
  id: string;
  key: string | null;
  sentAt: number;
  /** The earliest delivery time in milliseconds since 1970; 0 without a delay. */
  dueAt: number;
  body: unknown;
}

/** A row that stores several messages, numbered from `first`. Storage is billed per written row. */
interface ChunkRow extends Record<string, SqlStorageValue> {
  first: number;
  count: number;
  /** The common first half of the ids of the chunk's messages. The second half of an id is the message's position in the chunk. */
  mark: string;
  sent_at: number;
  messages: string;
}

/** One message of a chunk, as JSON without defaults. `later`: milliseconds after the chunk's `sent_at`. */
type Entry = [body: unknown, later?: number, key?: string | null, delayMs?: number];

interface Chunk {
  first: number;
  messages: Kept[];
}

/**
 * Maximum size of the row of a new chunk, in characters. The limit exists because the whole row is parsed at once, and because the platform
 * limits a value to 2 MB.
 */
const MAX_CHUNK_CHARACTERS = 256 * 1024;
/**
 * If the last chunk is below this size in characters, the next message is appended to this chunk. This saves the insert and the delete of a
 * row.
 */
const MAX_APPENDED_CHARACTERS = 4 * 1024;

/**
 * The waiting messages of a lane. Each message has a number, and the numbers increase. In an empty lane the numbers start at the present
 * time, because an empty lane does not store its last number.
 */
export class Backlog {
  readonly #sql: SqlStorage;
  next = 0;
  /** The number of the first waiting message; equals `next` when no message waits. */
  first: number;
  #read: Chunk | undefined;
  /** The last chunk, while messages can still be appended to it. */
  #tail: { first: number; count: number; sentAt: number; characters: number; mark: string } | undefined;

  constructor(sql: SqlStorage, head: number) {
    this.#sql = sql;
    const ends = "SELECT min(first) AS first, (SELECT first + count FROM messages ORDER BY first DESC LIMIT 1) AS next FROM messages";
    const { first, next } = sql.exec<{ first: number | null; next: number | null }>(ends).one();
    this.next = Math.max(next ?? 0, head);
    this.first = Math.max(first ?? this.next, head);
  }

  static make(sql: SqlStorage): void {
    sql.exec(`CREATE TABLE IF NOT EXISTS messages (
      first INTEGER PRIMARY KEY, count INTEGER NOT NULL, mark TEXT NOT NULL, sent_at INTEGER NOT NULL, messages TEXT NOT NULL
    ) STRICT`);
  }

  get depth(): number {
    return this.next - this.first;
  }

  /**
   * Appends messages and returns their ids. Messages are not appended to chunks before `closedTo`, because the handler may already have the
   * messages of these chunks.
   */
  add(posts: readonly Posted[], closedTo: number, now: number): string[] {
    if (this.depth === 0) this.first = this.next = Math.max(this.next, now * 1000);
    const ids: string[] = [];
    for (const part of parts(posts)) ids.push(...(this.#append(part, closedTo, now) ?? this.#insert(part, now)));
    return ids;
  }

  read(from: number, most: number): Kept[] {
    const messages: Kept[] = [];
    for (let at = Math.max(from, this.first); messages.length < most && at < this.next; ) {
      const chunk = this.#chunkOf(at);
      const some = chunk.messages.slice(at - chunk.first, at - chunk.first + most - messages.length);
      messages.push(...some);
      at += some.length;
    }
    return messages;
  }

  /** True if the message with this id is waiting. */
  has(id: string): boolean {
    const [mark = "", at = ""] = id.split("-");
    const chunks = this.#sql.exec<ChunkRow>("SELECT first, count, mark FROM messages WHERE mark = ?", mark).toArray();
    return chunks.some(({ first, count }) => first + Number(at) >= this.first && Number(at) < count);
  }

  /** Removes the chunks that lie completely before a number. Returns true if a chunk is only partly before that number. */
  remove(before: number): boolean {
    this.#sql.exec("DELETE FROM messages WHERE first + count <= ?", before);
    this.first = before;
    return before < this.next && this.#chunkOf(before).first !== before;
  }

  /** The size of all waiting messages in characters. */
  size(): number {
    return this.#sql.exec<{ size: number | null }>("SELECT sum(length(messages)) AS size FROM messages").one().size ?? 0;
  }

  #insert(posts: readonly Posted[], now: number): string[] {
    const mark = crypto.randomUUID().replaceAll("-", "").slice(0, 16);
    const messages = `[${posts.map((post) => textOf(post, 0)).join()}]`;
    const row = [this.next, posts.length, mark, now, messages];
    this.#sql.exec("INSERT INTO messages (first, count, mark, sent_at, messages) VALUES (?, ?, ?, ?, ?)", ...row);
    this.#tail = { first: this.next, count: posts.length, sentAt: now, characters: messages.length, mark };
    this.next += posts.length;
    return posts.map((_, at) => `${mark}-${at}`);
  }

  #append(posts: readonly Posted[], closedTo: number, now: number): string[] | undefined {
    const tail = this.#tail;
    if (!tail || tail.first < closedTo || tail.first < this.first) return undefined;
    const more = posts.map((post) => `,${textOf(post, now - tail.sentAt)}`).join("");
    if (tail.characters + more.length > MAX_APPENDED_CHARACTERS) return undefined;
    const append = "UPDATE messages SET count = count + ?, messages = substr(messages, 1, length(messages) - 1) || ? WHERE first = ?";
    this.#sql.exec(append, posts.length, `${more}]`, tail.first);
    const ids = posts.map((_, at) => `${tail.mark}-${tail.count + at}`);
    if (this.#read?.first === tail.first) {
      const kept = posts.map(({ text, key, delayMs }, at) => {
        const dueAt = delayMs > 0 ? now + delayMs : 0;
        return { sequence: this.next + at, id: ids[at] as string, key, sentAt: now, dueAt, body: JSON.parse(text) };
      });
      this.#read.messages.push(...kept);
    }
    this.#tail = { ...tail, count: tail.count + posts.length, characters: tail.characters + more.length };
    this.next += posts.length;
    return ids;
  }

  #chunkOf(sequence: number): Chunk {
    const known = this.#read;
    if (known && sequence >= known.first && sequence < known.first + known.messages.length) return known;
    const find = "SELECT first, count, mark, sent_at, messages FROM messages WHERE first <= ? ORDER BY first DESC LIMIT 1";
    const row = this.#sql.exec<ChunkRow>(find, sequence).one();
    const entries = JSON.parse(row.messages) as Entry[];
    const messages = entries.map(([body, later = 0, key = null, delayMs = 0], at) => {
      const sentAt = row.sent_at + later;
      return { sequence: row.first + at, id: `${row.mark}-${at}`, key, sentAt, dueAt: delayMs > 0 ? sentAt + delayMs : 0, body };
    });
    this.#read = { first: row.first, messages };
    return this.#read;
  }
}

function textOf({ text, key, delayMs }: Posted, later: number): string {
  if (key !== null || delayMs > 0) return `[${text},${later},${JSON.stringify(key)},${delayMs}]`;
  return later === 0 ? `[${text}]` : `[${text},${later}]`;
}

function* parts(posts: readonly Posted[]): Generator<Posted[]> {
  let part: Posted[] = [];
  let characters = 0;
  for (const post of posts) {
    if (part.length > 0 && characters + post.text.length > MAX_CHUNK_CHARACTERS) {
      yield part;
      part = [];
      characters = 0;
    }
    part.push(post);
    characters += post.text.length;
  }
  if (part.length > 0) yield part;
}

/** An additional condition for handing out the lane's messages. */
export interface Gate {
  /** Does work that is due before messages are handed out; returns undefined if no work is due. */
  prepare(): Promise<void> | undefined;
  room(): number;
  /** The lane calls this method within the transaction that removes the given messages. */
  done(messages: readonly Kept[]): void;
  /** The next time at which the gate has work, in milliseconds since 1970; undefined if no work is planned. */
  nextAt(): number | undefined;
}
