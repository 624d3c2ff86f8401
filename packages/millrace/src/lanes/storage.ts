import { Backlog, type Kept } from "./backlog.ts";
import type { LaneName } from "./definition.ts";
import { Letters } from "./letters.ts";
import type { Posted } from "./message.ts";
import { BEGINNING, type Progress } from "./progress.ts";

/** The result of a send: the message's id, and whether the message is a duplicate. For a duplicate, no new message was stored. */
export interface LaneSent {
  id: string;
  duplicate: boolean;
}

/** The state in memory of a lane whose tables exist. */
interface Open {
  name: LaneName;
  backlog: Backlog;
  keys: KnownKeys;
  letters: Letters;
  progress: Progress;
  /** The stored progress of the lane as JSON, without the position of the head. */
  saved: string;
}

/**
 * The storage of a lane. The lane's tables are created at the first write, so that a lane that is only read stores nothing. Each change is
 * one transaction. If a transaction fails, the state in memory is read from disk again.
 */
export class LaneStorage {
  readonly #storage: DurableObjectStorage;
  #open: Open | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#read();
  }

  /** The name of the lane; undefined before the first write. */
  get name(): LaneName | undefined {
    return this.#open?.name;
  }

  get progress(): Progress {
    return this.#open?.progress ?? BEGINNING;
  }

  get depth(): number {
    return this.#open?.backlog.depth ?? 0;
  }

  get letters(): Letters | undefined {
    return this.#open?.letters;
  }

  /** Creates the lane's tables if needed. The call precedes the first write and is outside its transaction. */
  make(name: LaneName): void {
    if (this.#open) return;
    Backlog.make(this.#storage.sql);
    Letters.make(this.#storage.sql);
    this.#storage.kv.put("name", name);
    this.#read();
  }

  /**
   * Appends messages, except messages whose key is already stored. No message is appended to a chunk before `closedTo`, because the handler
   * may already have the messages of such a chunk.
   */
  keep(posts: readonly Posted[], closedTo: number, now: number): LaneSent[] {
    return this.#change(({ backlog, keys, progress, ...open }) => {
      const named = new Map<string, number>();
      const fresh: Posted[] = [];
      const found = posts.map((post): { id: string } | { at: number; duplicate: boolean } => {
        const id = post.key === null ? undefined : keys.find(post.key);
        if (id !== undefined) return { id };
        const same = post.key === null ? undefined : named.get(post.key);
        if (same !== undefined) return { at: same, duplicate: true };
        if (post.key !== null) named.set(post.key, fresh.length);
        return { at: fresh.push(post) - 1, duplicate: false };
      });
      const wasEmpty = backlog.depth === 0;
      const ids = fresh.length > 0 ? backlog.add(fresh, closedTo, now) : [];
      for (const [key, at] of named) keys.add(key, ids[at] as string, now);
      if (wasEmpty && fresh.length > 0) this.#open = { backlog, keys, ...open, progress: { ...progress, head: backlog.first } };
      return found.map((one) => ("id" in one ? { id: one.id, duplicate: true } : { id: ids[one.at] as string, duplicate: one.duplicate }));
    });
  }

  messages(from: number, most: number): Kept[] {
    return this.#open?.backlog.read(from, most) ?? [];
  }

  /** True if the message is not done, or is a dead letter of this lane. */
  has(id: string): boolean {
    return this.#open !== undefined && (this.#open.backlog.has(id) || this.#open.letters.has(id));
  }

  /** Removes all messages before the new head and stores the progress. The call writes one row, or two rows after a failure. */
  advance(progress: Progress, now: number, also?: (letters: Letters) => void): void {
    this.#change((open) => {
      also?.(open.letters);
      const isInside = progress.head > open.progress.head && open.backlog.remove(progress.head);
      const saved = withoutHead(progress);
      if (isInside || saved !== open.saved) this.#storage.kv.put("progress", progress);
      open.keys.done(progress.head, now);
      this.#open = { ...open, progress, saved };
    });
  }

  /** The size of all waiting messages in characters. */
  size(): number {
    return this.#open?.backlog.size() ?? 0;
  }

  /** The size of the lane's storage in bytes. */
  get bytes(): number {
    return this.#open ? this.#storage.sql.databaseSize : 0;
  }

  /** True while at least one idempotency key is stored. */
  get knowsKeys(): boolean {
    return this.#open?.keys.any ?? false;
  }

  /** The time from which keys can be deleted; undefined while no key can be deleted. */
  forgetsAt(rememberMs: number): number | undefined {
    return this.#open?.keys.forgetsAt(rememberMs);
  }

  /** Deletes the keys of messages that have been done for `rememberMs`. */
  forget(rememberMs: number, now: number): void {
    if ((this.forgetsAt(rememberMs) ?? Number.POSITIVE_INFINITY) > now) return;
    this.#change(({ keys, backlog, progress }) => keys.forget(rememberMs, { head: progress.head, next: backlog.next, now }));
  }

  together<T>(change: () => T): T {
    return this.#change(change);
  }

  #change<T>(change: (open: Open) => T): T {
    if (!this.#open) throw new Error("A lane must be created before it is written to.");
    try {
      const open = this.#open;
      return this.#storage.transactionSync(() => change(open));
    } catch (error) {
      this.#read();
      throw error;
    }
  }

  #read(): void {
    const { sql, kv } = this.#storage;
    const name = kv.get<LaneName>("name");
    if (!name) return;
    const kept = kv.get<Progress>("progress") ?? BEGINNING;
    const backlog = new Backlog(sql, kept.head);
    const progress = { ...kept, head: backlog.first };
    this.#open = { name, backlog, keys: new KnownKeys(this.#storage), letters: new Letters(sql), progress, saved: withoutHead(kept) };
  }
}

function withoutHead({ head: _, ...rest }: Progress): string {
  return JSON.stringify(rest);
}

/** The table, of the two tables of keys, that gets new keys, and the time from which the other table can be dropped. */
interface Turn {
  to: "even" | "odd";
  /** The keys of messages before this number are in the table that gets no new keys. */
  from: number;
  /** The time when all messages before `from` were done; null while one of these messages waits. */
  doneAt: number | null;
}

const EVEN = "CREATE TABLE IF NOT EXISTS even_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL) STRICT, WITHOUT ROWID";
const ODD = "CREATE TABLE IF NOT EXISTS odd_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL) STRICT, WITHOUT ROWID";

/**
 * The idempotency keys of a lane, each with its message id. A key costs one written row. Two tables alternate, because a dropped table
 * costs no written row, whereas a deleted key costs one written row. A key is stored for at least the configured time, and for at most
 * twice this time.
 */
class KnownKeys {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  #turn: Turn | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#turn = storage.kv.get<Turn>("keys");
  }

  get any(): boolean {
    return this.#turn !== undefined;
  }

  /** Returns the id of the message with this key; undefined for an unknown key. */
  find(key: string): string | undefined {
    const find = "SELECT id FROM even_keys WHERE key = ?1 UNION ALL SELECT id FROM odd_keys WHERE key = ?1";
    return this.#turn && this.#sql.exec<{ id: string }>(find, key).toArray()[0]?.id;
  }

  add(key: string, id: string, now: number): void {
    if (!this.#turn) {
      this.#sql.exec(EVEN);
      this.#sql.exec(ODD);
      this.#put({ to: "even", from: 0, doneAt: now });
    }
    const isEven = this.#turn?.to === "even";
    this.#sql.exec(isEven ? "INSERT INTO even_keys (key, id) VALUES (?, ?)" : "INSERT INTO odd_keys (key, id) VALUES (?, ?)", key, id);
  }

  /** Records that all messages before this number are done. */
  done(head: number, now: number): void {
    if (this.#turn && this.#turn.doneAt === null && head >= this.#turn.from) this.#put({ ...this.#turn, doneAt: now });
  }

  /** The time from which keys can be deleted; undefined while no key can be deleted. */
  forgetsAt(rememberMs: number): number | undefined {
    return this.#turn?.doneAt == null ? undefined : this.#turn.doneAt + rememberMs;
  }

  /** Deletes the keys of messages that have been done for `rememberMs`. `next` is the number that the next message will get. */
  forget(rememberMs: number, { head, next, now }: { head: number; next: number; now: number }): void {
    const turn = this.#turn;
    const at = this.forgetsAt(rememberMs);
    if (!turn || at === undefined || at > now) return;
    const isEven = turn.to === "even";
    const newer = this.#sql.exec(isEven ? "SELECT 1 FROM even_keys LIMIT 1" : "SELECT 1 FROM odd_keys LIMIT 1").toArray();
    this.#sql.exec(isEven ? "DROP TABLE odd_keys" : "DROP TABLE even_keys");
    if (newer.length === 0) {
      this.#sql.exec(isEven ? "DROP TABLE even_keys" : "DROP TABLE odd_keys");
      this.#turn = undefined;
      this.#storage.kv.delete("keys");
      return;
    }
    this.#sql.exec(isEven ? ODD : EVEN);
    this.#put({ to: isEven ? "odd" : "even", from: next, doneAt: head >= next ? now : null });
  }

  #put(turn: Turn): void {
    this.#turn = turn;
    this.#storage.kv.put("keys", turn);
  }
}
