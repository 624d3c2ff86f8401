import type { LaneName } from "./lane-name.ts";
import type { Posted } from "./message.ts";
import { BEGINNING, type Progress } from "./progress.ts";

/** A message of a lane, as it is kept. */
export interface Kept {
  sequence: number;
  id: string;
  sentAt: number;
  /** Not handed out before; 0 for at once. */
  dueAt: number;
  key: string | null;
  body: unknown;
}

/** Several messages that were sent together, in one row: what is written is paid for by the row. */
type ChunkRow = { first: number; count: number; mark: string; sent_at: number; messages: string };
/** One message in a chunk: body, idempotency key, delay. */
type Entry = [body: unknown, key?: string | null, delayMs?: number];

/** Largest row of messages, in characters: a value may have 2 MB, and a chunk is parsed as a whole. */
const MAX_CHUNK_CHARACTERS = 256 * 1024;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS messages (
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, mark TEXT NOT NULL, sent_at INTEGER NOT NULL, messages TEXT NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS letters (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, letter TEXT NOT NULL, tries INTEGER NOT NULL, due_at INTEGER, error TEXT
  ) STRICT;
  CREATE TABLE IF NOT EXISTS even_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS odd_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL) STRICT, WITHOUT ROWID;`;

/** The idempotency keys that a lane knows: two tables take turns, so that old ones go all at once, which is no written row each. */
interface Turn {
  /** The table that takes new keys. */
  to: "even" | "odd";
  /** Keys of messages before this one are in the other table. */
  from: number;
  /** When all those messages were done; null while one is not. */
  doneAt: number | null;
}

/** The rows of a lane's object. Its tables are made at the first write: a lane that is only asked leaves nothing behind. */
export class LaneStorage {
  readonly #storage: DurableObjectStorage;
  #made: boolean;
  #turn: Turn | undefined;
  /** The number that the next message gets. */
  #next = 0;
  /** As it is on disk, without its head. */
  #saved = withoutHead(BEGINNING);
  /** The parsed messages of the chunk that was read last. */
  #chunk: { first: number; messages: Kept[] } | undefined;
  progress: Progress = BEGINNING;
  name: LaneName | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.name = storage.kv.get<LaneName>("name");
    this.#made = this.name !== undefined;
    if (!this.#made) return;
    this.#turn = storage.kv.get<Turn>("keys");
    const { sql } = storage;
    const first = sql.exec<{ first: number }>("SELECT first FROM messages ORDER BY first LIMIT 1").toArray()[0]?.first;
    const last = sql.exec<{ next: number }>("SELECT first + count AS next FROM messages ORDER BY first DESC LIMIT 1").toArray()[0]?.next;
    const kept = storage.kv.get<Progress>("progress") ?? BEGINNING;
    this.#saved = withoutHead(kept);
    this.#next = Math.max(last ?? 0, kept.head);
    this.progress = { ...kept, head: first === undefined ? this.#next : Math.max(kept.head, first) };
  }

  get isEmpty(): boolean {
    return this.progress.head >= this.#next;
  }

  /** Messages that wait. */
  get depth(): number {
    return Math.max(0, this.#next - this.progress.head);
  }

  get made(): boolean {
    return this.#made;
  }

  /** Keeps messages behind all others, but for those whose key is known. One write, however many there are. */
  keep(name: LaneName, posts: readonly Posted[], now: number): { id: string; duplicate: boolean }[] {
    this.make(name);
    return this.#storage.transactionSync(() => {
      const mark = crypto.randomUUID().replaceAll("-", "").slice(0, 16);
      const fresh: Posted[] = [];
      const answers = posts.map((post) => {
        const known = post.key === null ? undefined : this.#known(post.key);
        if (known !== undefined) return { id: known, duplicate: true };
        const id = `${mark}-${fresh.length}`;
        fresh.push(post);
        if (post.key !== null) this.#remember(post.key, id, now);
        return { id, duplicate: false };
      });
      if (fresh.length === 0) return answers;
      if (this.isEmpty) {
        // While a lane is empty nothing remembers its last number: the clock does.
        this.#next = Math.max(this.#next, now * 1000);
        this.progress = { ...this.progress, head: this.#next };
      }
      let at = 0;
      for (const part of chunksOf(fresh)) {
        const messages = `[${part.map(textOf).join(",")}]`;
        const row = [this.#next, part.length, at === 0 ? mark : `${mark}+${at}`, now, messages];
        this.#storage.sql.exec("INSERT INTO messages (first, count, mark, sent_at, messages) VALUES (?, ?, ?, ?, ?)", ...row);
        this.#next += part.length;
        at += part.length;
      }
      return answers;
    });
  }

  /** The messages from a number on, in order. */
  read(from: number, most: number): Kept[] {
    const messages: Kept[] = [];
    for (let at = from; messages.length < most && at < this.#next; ) {
      const chunk = this.#chunkAt(at);
      if (!chunk) break;
      const some = chunk.messages.slice(at - chunk.first, at - chunk.first + most - messages.length);
      messages.push(...some);
      at += some.length;
    }
    return messages;
  }

  /** Removes everything before the head of this progress, and keeps the progress: one write. */
  advance(progress: Progress, now: number, also?: () => void): void {
    this.#storage.transactionSync(() => {
      also?.();
      if (progress.head > this.progress.head) this.#storage.sql.exec("DELETE FROM messages WHERE first + count <= ?", progress.head);
      const isEmpty = progress.head >= this.#next;
      const isInside = !isEmpty && this.#chunkAt(progress.head)?.first !== progress.head;
      this.progress = progress;
      const saved = withoutHead(progress);
      if (isInside || saved !== this.#saved) this.#storage.kv.put("progress", progress);
      this.#saved = saved;
      this.#noteDone(now);
    });
  }

  /** Bytes that wait, and when the first was sent. */
  backlog(): { bytes: number; oldestAt: number | null } {
    if (!this.#made || this.isEmpty) return { bytes: 0, oldestAt: null };
    const sql = "SELECT sum(length(messages)) AS bytes, min(sent_at) AS oldest FROM messages";
    const { bytes, oldest } = this.#storage.sql.exec<{ bytes: number; oldest: number }>(sql).one();
    return { bytes, oldestAt: oldest };
  }

  /** When keys may be forgotten; undefined when none are known, or none soon. */
  forgetsAt(rememberMs: number): number | undefined {
    return this.#turn?.doneAt == null ? undefined : this.#turn.doneAt + rememberMs;
  }

  /** Forgets the keys of messages that were done so long ago. */
  forget(rememberMs: number, now: number): void {
    const turn = this.#turn;
    if (!turn || turn.doneAt === null || turn.doneAt + rememberMs > now) return;
    this.#storage.transactionSync(() => {
      const { sql } = this.#storage;
      sql.exec(turn.to === "even" ? "DELETE FROM odd_keys" : "DELETE FROM even_keys");
      const some = sql.exec(turn.to === "even" ? "SELECT 1 FROM even_keys LIMIT 1" : "SELECT 1 FROM odd_keys LIMIT 1").toArray();
      if (some.length === 0) {
        this.#turn = undefined;
        this.#storage.kv.delete("keys");
        return;
      }
      const next: Turn = { to: turn.to === "even" ? "odd" : "even", from: this.#next, doneAt: null };
      this.#setTurn(next);
      this.#noteDone(now);
    });
  }

  /** Makes the tables. */
  make(name: LaneName): void {
    if (this.#made) return;
    this.#storage.sql.exec(SCHEMA);
    this.#storage.kv.put("name", name);
    this.name = name;
    this.#made = true;
  }

  #chunkAt(sequence: number): { first: number; messages: Kept[] } | undefined {
    const known = this.#chunk;
    if (known && sequence >= known.first && sequence < known.first + known.messages.length) return known;
    const sql = "SELECT first, count, mark, sent_at, messages FROM messages WHERE first <= ? ORDER BY first DESC LIMIT 1";
    const row = this.#storage.sql.exec<ChunkRow>(sql, sequence).toArray()[0];
    if (!row || sequence >= row.first + row.count) return undefined;
    const [mark, from = "0"] = row.mark.split("+");
    const messages = (JSON.parse(row.messages) as Entry[]).map(([body, key = null, delayMs = 0], at) => ({
      sequence: row.first + at,
      id: `${mark}-${Number(from) + at}`,
      sentAt: row.sent_at,
      dueAt: delayMs > 0 ? row.sent_at + delayMs : 0,
      key,
      body,
    }));
    this.#chunk = { first: row.first, messages };
    return this.#chunk;
  }

  #known(key: string): string | undefined {
    const sql = "SELECT id FROM even_keys WHERE key = ?1 UNION ALL SELECT id FROM odd_keys WHERE key = ?1";
    return this.#turn && this.#storage.sql.exec<{ id: string }>(sql, key).toArray()[0]?.id;
  }

  #remember(key: string, id: string, now: number): void {
    if (!this.#turn) this.#setTurn({ to: "even", from: 0, doneAt: now });
    const into =
      this.#turn?.to === "even" ? "INSERT INTO even_keys (key, id) VALUES (?, ?)" : "INSERT INTO odd_keys (key, id) VALUES (?, ?)";
    this.#storage.sql.exec(into, key, id);
  }

  #noteDone(now: number): void {
    if (this.#turn && this.#turn.doneAt === null && this.progress.head >= this.#turn.from) this.#setTurn({ ...this.#turn, doneAt: now });
  }

  #setTurn(turn: Turn): void {
    this.#turn = turn;
    this.#storage.kv.put("keys", turn);
  }
}

function withoutHead({ head: _, ...rest }: Progress): string {
  return JSON.stringify(rest);
}

function textOf({ text, key, delayMs }: Posted): string {
  if (key === null && delayMs === 0) return `[${text}]`;
  return `[${text},${JSON.stringify(key)},${delayMs}]`;
}

function* chunksOf(posts: readonly Posted[]): Generator<Posted[]> {
  let part: Posted[] = [];
  let size = 0;
  for (const post of posts) {
    if (part.length > 0 && size + post.text.length > MAX_CHUNK_CHARACTERS) {
      yield part;
      part = [];
      size = 0;
    }
    part.push(post);
    size += post.text.length;
  }
  if (part.length > 0) yield part;
}
