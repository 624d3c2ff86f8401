import { DurableObject } from "cloudflare:workers";
import { texts } from "millrace";
import { type BAD_ANSWERS, OUTCOMES, prepare, UPSTREAMS } from "./schema.ts";

export type UpstreamName = (typeof UPSTREAMS)[number];
export type Outcome = (typeof OUTCOMES)[number];

/** A call to an embedded program. Tests find duplicate calls in the stored rows of calls. */
export interface Call {
  upstream: UpstreamName;
  /** The call's idempotency key, if any. */
  key: string | null;
  /** The subject of the call: the query, the first characters of the prompt, the page's path, or the record key with the post. */
  subject: string;
}

interface RecordedCall extends Call {
  id: number;
  /** The time of the call (ISO 8601). */
  at: string;
  outcome: Outcome;
}

/** A rule that makes calls to an embedded program fail. The program applies the first matching rule that has remaining hits. */
export interface Fault {
  upstream: UpstreamName;
  /** A text that the call's path, query or body contains. An empty `match` applies to every call. */
  match: string;
  /** The HTTP status of the failed call. */
  status: number;
  /** The number of remaining calls that the rule applies to; null for no limit. */
  remaining: number | null;
  /** The value of the `Retry-After` header in seconds. */
  retryAfter?: number;
  /** True when the call has its effect and only the call's response is lost. Default: false, so the call has no effect. */
  afterEffect?: boolean;
}

export type BadAnswer = (typeof BAD_ANSWERS)[number];

/** A rule that makes the answers of the embedded writer unusable. Unusable answers are charged like other answers. */
export interface AnswerFault {
  upstream: "text";
  /** A text that the prompt contains. */
  match: string;
  /** The way in which the writer's answer is unusable. */
  answer: BadAnswer;
  /**
   * The number of remaining answers that the rule applies to; null for no limit. A request with a repeated key gets the first answer to
   * that key, and does not count.
   */
  remaining: number | null;
}

export interface LedgerReport {
  calls: RecordedCall[];
  totals: Record<UpstreamName, Record<Outcome, number>>;
}

const MAX_SUBJECT_LENGTH = 500;
const NONE = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, 0])) as Record<Outcome, number>;

const RECORD_CALL = `INSERT INTO calls (upstream, key, subject, outcome) VALUES (?, ?, ?, ?)`;
const FIND_CALLS = `SELECT id, upstream, key, subject, at, outcome FROM calls
  WHERE (?1 IS NULL OR upstream = ?1) AND (?2 IS NULL OR instr(subject, ?2) > 0 OR key = ?2) ORDER BY id`;
const LAST_CHANGE = `SELECT outcome FROM calls
  WHERE upstream = ? AND subject = ? AND outcome IN ('created', 'replaced', 'removed') ORDER BY id DESC LIMIT 1`;
const FIND_ANSWER = `SELECT fingerprint, body FROM answers WHERE key = ?`;
const STORE_ANSWER = `INSERT INTO answers (key, fingerprint, body) VALUES (?, ?, ?)`;
const ADD_FAULT = `INSERT INTO faults (upstream, match, status, remaining, retry_after, after_effect) VALUES (?, ?, ?, ?, ?, ?)`;
const TAKE_FAULT = `UPDATE faults SET remaining = remaining - 1
  WHERE id = (SELECT id FROM faults
      WHERE upstream = ?1 AND instr(?2, match) > 0 AND (remaining IS NULL OR remaining > 0) ORDER BY id LIMIT 1)
  RETURNING upstream, match, status, remaining, retry_after, after_effect`;
const ADD_ANSWER_FAULT = `INSERT INTO answer_faults (match, answer, remaining) VALUES (?, ?, ?)`;
const TAKE_ANSWER_FAULT = `UPDATE answer_faults SET remaining = remaining - 1
  WHERE id = (SELECT id FROM answer_faults WHERE instr(?1, match) > 0 AND (remaining IS NULL OR remaining > 0) ORDER BY id LIMIT 1)
    AND NOT EXISTS (SELECT 1 FROM answers WHERE key = ?2)
  RETURNING answer`;
const OPEN_SESSION = `INSERT INTO sessions (token, did, expires_at) VALUES (?, ?, ?)`;
const FIND_SESSION = `SELECT did, expires_at FROM sessions WHERE token = ?`;
const FIND_RECORD = `SELECT cid, value FROM records WHERE uri = ?`;
const PUT_RECORD = `INSERT INTO records (uri, cid, value) VALUES (?, ?, ?)
  ON CONFLICT (uri) DO UPDATE SET cid = excluded.cid, value = excluded.value`;
const DELETE_RECORD = `DELETE FROM records WHERE uri = ?`;

const ADD_POST = `INSERT INTO posts (upstream, account, key, text, at) VALUES (?, ?, ?, ?, ?) RETURNING id, text, at`;
const KEYED_POST = `SELECT id, text, at FROM posts WHERE upstream = ? AND account = ? AND key = ? AND at > ? ORDER BY id DESC LIMIT 1`;
const SAME_POST = `SELECT id, text, at FROM posts WHERE upstream = ? AND account = ? AND text = ? LIMIT 1`;
const POSTS = `SELECT id, text, at FROM posts WHERE upstream = ? AND account = ? AND id < ? ORDER BY id DESC LIMIT ?`;

/** A post on an embedded platform. */
export interface StoredPost {
  id: number;
  text: string;
  /** The time of the post in milliseconds. */
  at: number;
}

/** The state of the embedded programs. Every method of the ledger is synchronous SQL, so calls cannot interleave. */
export class EmbeddedLedger extends DurableObject {
  readonly #sql = this.ctx.storage.sql;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    prepare(ctx.storage);
  }

  record(call: Call, outcome: Outcome): void {
    this.#sql.exec(RECORD_CALL, call.upstream, call.key, texts.beginning(call.subject, MAX_SUBJECT_LENGTH), outcome);
  }

  /** True if the ledger contains an earlier call of the embedded program with this subject. */
  isKnown({ upstream, subject }: Pick<Call, "upstream" | "subject">): boolean {
    return this.report({ upstream, match: subject }).calls.some((call) => call.subject === texts.beginning(subject, MAX_SUBJECT_LENGTH));
  }

  /** Records a change of a page, and returns the outcome of the change. The outcome depends on the page's previous change in the ledger. */
  recordPage(call: Call, did: "put" | "removed"): Outcome {
    const [last] = this.#sql
      .exec<{ outcome: Outcome }>(LAST_CHANGE, call.upstream, texts.beginning(call.subject, MAX_SUBJECT_LENGTH))
      .toArray();
    const stands = last?.outcome === "created" || last?.outcome === "replaced";
    const outcome = did === "put" ? (stands ? "replaced" : "created") : stands ? "removed" : "unchanged";
    this.record(call, outcome);
    return outcome;
  }

  report(filter: { upstream?: string; match?: string }): LedgerReport {
    const calls = this.#sql.exec<Row<RecordedCall>>(FIND_CALLS, filter.upstream ?? null, filter.match ?? null).toArray();
    const totals = Object.fromEntries(UPSTREAMS.map((upstream) => [upstream, { ...NONE }])) as LedgerReport["totals"];
    for (const call of calls) totals[call.upstream][call.outcome] += 1;
    return { calls, totals };
  }

  /**
   * Charges for an answer of the embedded writer, once per key. If the key is known, the method returns the stored answer, or null if the
   * stored answer belongs to a different request.
   */
  charge(call: Call, fingerprint: string, body: string): string | null {
    const stored =
      call.key === null ? undefined : this.#sql.exec<{ fingerprint: string; body: string }>(FIND_ANSWER, call.key).toArray()[0];
    if (stored && stored.fingerprint !== fingerprint) return null;
    if (!stored && call.key !== null) this.#sql.exec(STORE_ANSWER, call.key, fingerprint, body);
    this.record(call, stored ? "repeated" : "charged");
    return stored?.body ?? body;
  }

  setFaults(faults: (Fault | AnswerFault)[]): void {
    this.#sql.exec(`DELETE FROM faults; DELETE FROM answer_faults`);
    for (const fault of faults) {
      if ("answer" in fault) {
        this.#sql.exec(ADD_ANSWER_FAULT, fault.match, fault.answer, fault.remaining);
        continue;
      }
      const { upstream, match, status, remaining, retryAfter, afterEffect } = fault;
      this.#sql.exec(ADD_FAULT, upstream, match, status, remaining, retryAfter ?? null, afterEffect ? 1 : 0);
    }
  }

  /** Finds the first fault that applies to a call with this path and body, and uses up one of the fault's hits. */
  takeFault(call: Call, pathAndBody: string): Fault | null {
    const [row] = this.#sql.exec<FaultRow>(TAKE_FAULT, call.upstream, pathAndBody).toArray();
    if (!row) return null;
    if (!row.after_effect) this.record({ ...call, subject: `${call.subject} (${row.match})` }, "refused");
    const { retry_after, after_effect, ...fault } = row;
    return { ...fault, retryAfter: retry_after ?? undefined, afterEffect: after_effect === 1 };
  }

  /**
   * Finds the first rule for an answer to this prompt, and uses up one of the rule's hits. The method returns null if no rule matches, and
   * also for a key with a stored answer.
   */
  takeAnswerFault(key: string | null, prompt: string): BadAnswer | null {
    return this.#sql.exec<{ answer: BadAnswer }>(TAKE_ANSWER_FAULT, prompt, key).toArray()[0]?.answer ?? null;
  }

  openSession(token: string, did: string, expiresAt: number): void {
    this.#sql.exec(OPEN_SESSION, token, did, expiresAt);
  }

  /** Returns the DID of a session token, or the reason why the token is invalid. */
  sessionOf(token: string): { did: string } | "unknown" | "expired" {
    const [row] = this.#sql.exec<{ did: string; expires_at: number }>(FIND_SESSION, token).toArray();
    if (!row) return "unknown";
    return row.expires_at > Date.now() ? { did: row.did } : "expired";
  }

  putRecord(call: Call, uri: string, cid: string, value: string): void {
    const before = this.getRecord(uri);
    if (before?.cid !== cid) this.#sql.exec(PUT_RECORD, uri, cid, value);
    this.record(call, before === null ? "created" : before.cid === cid ? "unchanged" : "replaced");
  }

  deleteRecord(call: Call, uri: string): void {
    const { rowsWritten } = this.#sql.exec(DELETE_RECORD, uri);
    this.record(call, rowsWritten > 0 ? "removed" : "unchanged");
  }

  /**
   * Posts a text to an account of an embedded platform. If the account used the same key within the last `keepKeyMs`, the method returns
   * the earlier post.
   */
  addPost(call: Call, account: string, text: string, keepKeyMs: number): StoredPost {
    const now = Date.now();
    const [known] =
      call.key === null ? [] : this.#sql.exec<Row<StoredPost>>(KEYED_POST, call.upstream, account, call.key, now - keepKeyMs).toArray();
    this.record(call, known ? "repeated" : "created");
    return known ?? this.#sql.exec<Row<StoredPost>>(ADD_POST, call.upstream, account, call.key, text, now).one();
  }

  /** True if an account has a post with this text. */
  hasPost(upstream: UpstreamName, account: string, text: string): boolean {
    return this.#sql.exec(SAME_POST, upstream, account, text).toArray().length > 0;
  }

  /** Returns the posts of an account that are older than a given post, newest first. */
  posts(upstream: UpstreamName, account: string, before: number, limit: number): StoredPost[] {
    return this.#sql.exec<Row<StoredPost>>(POSTS, upstream, account, before, limit).toArray();
  }

  getRecord(uri: string): { cid: string; value: string } | null {
    return this.#sql.exec<{ cid: string; value: string }>(FIND_RECORD, uri).toArray()[0] ?? null;
  }
}

/** The type checker accepts SQLite rows only as plain object types, so this type converts an interface to such a type. */
type Row<T> = { [Column in keyof T]: T[Column] };
type FaultRow = Row<Omit<Fault, "retryAfter" | "afterEffect">> & { retry_after: number | null; after_effect: number };
