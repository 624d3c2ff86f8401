import { randomBytes } from "node:crypto";
import type { PullPlan } from "./definition.ts";
import { LeaseBook, leaseIdOf } from "./leases.ts";
import type { Leased, Posted, PullContentType, PullSent } from "./message.ts";

interface Row extends Record<string, SqlStorageValue> {
  sequence: number;
  id: string;
  type: PullContentType;
  body: string | ArrayBuffer;
  sent_at: number;
  attempts: number;
}

/** Messages that a puller returned, and the time of their next delivery. */
interface Returned {
  sequences: readonly number[];
  dueAt: number;
}

/**
 * `due_at` is set while a message is delayed or waits for a retry, and NULL while the message is new or leased. The index contains only
 * messages with `due_at`. Therefore a message that is sent, leased and acknowledged is written once and deleted once.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS pull_messages (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL, sent_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, due_at INTEGER);
  CREATE INDEX IF NOT EXISTS pull_messages_due ON pull_messages (due_at) WHERE due_at IS NOT NULL;
  CREATE TABLE IF NOT EXISTS pull_leases (id TEXT PRIMARY KEY, until INTEGER NOT NULL, sequences TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS pull_letters (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
    sent_at INTEGER NOT NULL, dead_at INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due_at INTEGER, error TEXT);
  CREATE INDEX IF NOT EXISTS pull_letters_due ON pull_letters (due_at) WHERE due_at IS NOT NULL;`;

const COLUMNS = "sequence, id, type, body, sent_at, attempts";
/** Maximum number of messages that one check of the retention retires. */
const RETIRED_AT_ONCE = 100;

/**
 * The messages of one queue and their leases. Each change is one atomic write. The leases, and the position in the queue from which all
 * messages are new, are also in memory. The first call reads both from disk.
 */
export class PullStorage {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  readonly #book: LeaseBook;
  readonly #keys: PullKeys;
  #made: boolean;
  /** The sequence number up to which no message is new. */
  #cursor = 0;
  #last = 0;
  #depth = 0;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#made = this.#number("SELECT count(*) FROM sqlite_master WHERE name = 'pull_messages'") > 0;
    this.#book = new LeaseBook(this.#sql);
    this.#keys = new PullKeys(this.#sql);
    if (!this.#made) return;
    this.#book.read();
    this.#depth = this.#number("SELECT count(*) FROM pull_messages");
    const last = (table: string) => this.#number(`SELECT coalesce(max(sequence), 0) FROM ${table}`);
    this.#last = Math.max(last("pull_messages"), last("pull_letters"));
  }

  /** True if the tables exist. The first message creates the tables. */
  get made(): boolean {
    return this.#made;
  }

  /** The queue's idempotency keys; undefined until the first message. */
  get keys(): PullKeys | undefined {
    return this.#made ? this.#keys : undefined;
  }

  /** Number of messages that are neither acknowledged nor dead letters. */
  get depth(): number {
    return this.#depth;
  }

  get leased(): number {
    return this.#book.count;
  }

  get bytes(): number {
    return this.#sql.databaseSize;
  }

  /** The time when the oldest message was sent, in milliseconds since 1970. */
  get oldestAt(): number | null {
    return this.#made ? (this.#head()?.sent_at ?? null) : null;
  }

  /** The number of messages that are delayed or wait for a retry. */
  waiting(now: number): number {
    return this.#made ? this.#number("SELECT count(*) FROM pull_messages WHERE due_at > ?", now) : 0;
  }

  /** Appends the messages, except messages whose idempotency key the queue remembers. */
  keep(posts: readonly Posted[], { rememberMs }: Pick<PullPlan, "rememberMs">, now: number): PullSent[] {
    let last = this.#last;
    const sent = this.#storage.transactionSync(() => {
      if (!this.#made) this.#make();
      return posts.map(({ type, body, key, delayMs }) => {
        const known = key === null ? undefined : this.#keys.idOf(key, now);
        if (known !== undefined) return { id: known, duplicate: true };
        const id = randomBytes(16).toString("hex");
        const message = [++last, id, type, body, now, delayMs > 0 ? now + delayMs : null];
        this.#sql.exec("INSERT INTO pull_messages (sequence, id, type, body, sent_at, due_at) VALUES (?, ?, ?, ?, ?, ?)", ...message);
        if (key !== null) this.#keys.remember(key, id, now + rememberMs);
        return { id, duplicate: false };
      });
    });
    this.#made = true;
    this.#last = last;
    this.#depth += sent.filter(({ duplicate }) => !duplicate).length;
    return sent;
  }

  /** Leases the oldest available messages that are within the retention. Until the time `until`, no later pull gets these messages. */
  take(most: number, until: number, { retentionMs }: Pick<PullPlan, "retentionMs">, now: number): Leased[] {
    if (this.#depth === this.#book.count) return [];
    const from = this.#firstAfter(now - retentionMs);
    if (from === undefined) return [];
    const returned = this.#returned(from, most, now);
    const fresh = this.#fresh(from, most);
    const chosen = [...returned, ...fresh].toSorted((one, other) => one.sequence - other.sequence).slice(0, most);
    if (chosen.length === 0) return [];
    const sequences = chosen.map(({ sequence }) => sequence);
    const again = returned.filter((row) => chosen.includes(row)).map(({ sequence }) => sequence);
    const lease = randomBytes(12).toString("hex");
    this.#storage.transactionSync(() => {
      this.#book.write(lease, until, sequences);
      if (again.length > 0)
        this.#sql.exec(`UPDATE pull_messages SET due_at = NULL WHERE sequence IN (SELECT value FROM json_each(?1))`, JSON.stringify(again));
    });
    this.#book.open(lease, until, sequences);
    const news = fresh.filter((row) => chosen.includes(row));
    const isAll = news.length === fresh.length && fresh.length < most;
    this.#cursor = isAll ? this.#last : Math.max(this.#cursor, ...news.map(({ sequence }) => sequence));
    return chosen.map(({ sequence, id, type, body, sent_at, attempts }) => ({
      ...{ id, type, body, sentAt: sent_at, attempts: attempts + 1 },
      leaseId: leaseIdOf(lease, sequence),
    }));
  }

  /** The sequence number of the message that a lease id identifies; undefined after the lease has ended. */
  heldBy(leaseId: string): number | undefined {
    return this.#book.heldBy(leaseId);
  }

  /**
   * Removes the acknowledged messages. The returned messages are delivered again at their due times, or become dead letters. Acknowledged
   * and returned messages leave their leases.
   */
  settle(acked: readonly number[], returns: readonly Returned[], plan: PullPlan, now: number): void {
    const over = [...acked, ...returns.flatMap(({ sequences }) => sequences)];
    if (over.length === 0) return;
    const left = this.#book.without(over);
    const gone = this.#storage.transactionSync(() => {
      const deleted = acked.length === 0 ? 0 : this.#delete(acked);
      const given = returns.map((each) => this.#return(each, plan, now));
      this.#book.writeWithout(left);
      return deleted + given.reduce((sum, count) => sum + count, 0);
    });
    this.#depth -= gone;
    this.#book.close(left);
  }

  /** Returns the messages whose lease has expired. */
  ranOut(now: number): number[] {
    return this.#book.ranOut(now);
  }

  /**
   * Retires messages that are older than the retention, except leased messages. Returns true if more messages may be due for retirement.
   */
  retire({ retentionMs, onDeadLetter }: PullPlan, now: number): boolean {
    if (!this.#made) return false;
    const old: number[] = [];
    for (const { sequence, sent_at } of this.#sql.exec<Row>("SELECT sequence, sent_at FROM pull_messages ORDER BY sequence")) {
      if (sent_at > now - retentionMs || old.length === RETIRED_AT_ONCE) break;
      if (!this.#book.has(sequence)) old.push(sequence);
    }
    if (old.length === 0) return false;
    this.#depth -= this.#storage.transactionSync(() => this.#bury(old, "expired", 0, onDeadLetter ? now : null, now));
    return old.length === RETIRED_AT_ONCE;
  }

  /**
   * The time of the next due work, in milliseconds since 1970. Due work is the end of a lease, the expiry of a message, or the hand-off of
   * a dead letter.
   */
  nextAt(plan: Pick<PullPlan, "retentionMs">, now: number): number | undefined {
    if (!this.#made) return undefined;
    const letter = this.#sql.exec<{ due: number | null }>("SELECT min(due_at) AS due FROM pull_letters WHERE due_at IS NOT NULL").one().due;
    const times = [this.#book.endsAt, this.#expiresAt(plan, now), letter ?? undefined];
    const known = times.filter((time) => time !== undefined);
    return known.length > 0 ? Math.min(...known) : undefined;
  }

  /** Adds a dead letter's message to the end of the queue as a new message. Returns false for an unknown id. */
  revive(id: string, now: number): boolean {
    if (!this.#made) return false;
    const sequence = this.#last + 1;
    const revived = this.#storage.transactionSync(() => {
      const copy = `INSERT INTO pull_messages (sequence, id, type, body, sent_at)
        SELECT ?, id, type, body, ? FROM pull_letters WHERE id = ? RETURNING sequence`;
      const found = this.#sql.exec(copy, sequence, now, id).toArray().length > 0;
      if (found) this.#sql.exec("DELETE FROM pull_letters WHERE id = ?", id);
      return found;
    });
    if (revived) {
      this.#last = sequence;
      this.#depth++;
    }
    return revived;
  }

  #head(): Pick<Row, "sequence" | "sent_at"> | undefined {
    return this.#sql.exec<Row>("SELECT sequence, sent_at FROM pull_messages ORDER BY sequence LIMIT 1").toArray()[0];
  }

  #make(): void {
    this.#sql.exec(SCHEMA);
    this.#keys.make();
  }

  #firstAfter(sentAt: number): number | undefined {
    const sql = "SELECT sequence FROM pull_messages WHERE sent_at > ? ORDER BY sequence LIMIT 1";
    return this.#sql.exec<Row>(sql, sentAt).toArray()[0]?.sequence;
  }

  /**
   * The time when the next message may expire. A leased message is not retired, so the search skips leased messages that are already too
   * old.
   */
  #expiresAt({ retentionMs }: Pick<PullPlan, "retentionMs">, now: number): number | undefined {
    for (const { sequence, sent_at } of this.#sql.exec<Row>("SELECT sequence, sent_at FROM pull_messages ORDER BY sequence")) {
      const at = sent_at + retentionMs;
      if (at > now || !this.#book.has(sequence)) return at;
    }
    return undefined;
  }

  /**
   * Returned messages that are due, from a sequence number on. The index selects these messages, so the bodies of other messages are not
   * read.
   */
  #returned(from: number, most: number, now: number): Row[] {
    const ripe = `SELECT ${COLUMNS} FROM pull_messages WHERE sequence IN (SELECT sequence FROM pull_messages INDEXED BY pull_messages_due
      WHERE due_at <= ? AND sequence >= ? ORDER BY sequence LIMIT ?)`;
    return this.#sql.exec<Row>(ripe, now, from, most).toArray();
  }

  /** Messages that were never leased, from a sequence number on. */
  #fresh(from: number, most: number): Row[] {
    const fresh: Row[] = [];
    const sql = `SELECT ${COLUMNS} FROM pull_messages WHERE sequence > ? AND due_at IS NULL ORDER BY sequence`;
    for (const row of this.#sql.exec<Row>(sql, Math.max(this.#cursor, from - 1))) {
      if (!this.#book.has(row.sequence)) fresh.push(row);
      if (fresh.length === most) break;
    }
    return fresh;
  }

  #delete(sequences: readonly number[]): number {
    return this.#sql
      .exec(`DELETE FROM pull_messages WHERE sequence IN (SELECT value FROM json_each(?1)) RETURNING sequence`, JSON.stringify(sequences))
      .toArray().length;
  }

  /** Counts a failed delivery of each returned message. Returns how many of these messages have no remaining retry. */
  #return({ sequences, dueAt }: Returned, { retryLimit, onDeadLetter }: PullPlan, now: number): number {
    const list = JSON.stringify(sequences);
    const used = `SELECT sequence FROM pull_messages WHERE sequence IN (SELECT value FROM json_each(?1)) AND attempts >= ?2`;
    const exhausted = this.#sql
      .exec<Row>(used, list, retryLimit)
      .toArray()
      .map(({ sequence }) => sequence);
    const buried = exhausted.length === 0 ? 0 : this.#bury(exhausted, "exhausted", 1, onDeadLetter ? now : null, now);
    this.#sql.exec(
      `UPDATE pull_messages SET attempts = attempts + 1, due_at = ?2 WHERE sequence IN (SELECT value FROM json_each(?1))`,
      list,
      dueAt,
    );
    return buried;
  }

  #bury(sequences: readonly number[], reason: "exhausted" | "expired", more: number, dueAt: number | null, now: number): number {
    const bury = `INSERT INTO pull_letters (sequence, id, type, body, reason, attempts, sent_at, dead_at, due_at)
      SELECT sequence, id, type, body, ?2, attempts + ?3, sent_at, ?4, ?5 FROM pull_messages
      WHERE sequence IN (SELECT value FROM json_each(?1))`;
    this.#sql.exec(bury, JSON.stringify(sequences), reason, more, now, dueAt);
    return this.#delete(sequences);
  }

  #number(sql: string, ...bound: SqlStorageValue[]): number {
    const [row] = this.#sql.exec(sql, ...bound).toArray();
    return Number(Object.values(row ?? {})[0] ?? 0);
  }
}

const KEYS_SCHEMA = `
  CREATE TABLE IF NOT EXISTS pull_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;`;

/** The unexpired idempotency keys of one queue, each with the id of its message. */
class PullKeys {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  make(): void {
    this.#sql.exec(KEYS_SCHEMA);
  }

  /** True if any key is stored. */
  get some(): boolean {
    return this.#sql.exec("SELECT 1 FROM pull_keys LIMIT 1").toArray().length > 0;
  }

  idOf(key: string, now: number): string | undefined {
    return this.#sql.exec<{ id: string }>("SELECT id FROM pull_keys WHERE key = ? AND until > ?", key, now).toArray()[0]?.id;
  }

  remember(key: string, id: string, until: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO pull_keys (key, id, until) VALUES (?, ?, ?)", key, id, until);
  }

  /** Deletes expired keys. */
  forget(now: number): void {
    this.#sql.exec("DELETE FROM pull_keys WHERE until <= ?", now);
  }
}
