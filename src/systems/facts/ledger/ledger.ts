import { DurableObject } from "cloudflare:workers";
import { errors, logLine } from "millrace";
import { outbox as engineOutbox } from "millrace/worker";
import type { Provenance, RecordedFact, StatedFact } from "../../../messages/fact.ts";
import type { Person } from "../../contacts/traces.ts";
import { Tables } from "../../object-tables.ts";
import { archiveFacts } from "../archive.ts";
import { SizeWatch } from "../object-sizes.ts";
import { FactRows, type LedgerPage, type PageBounds } from "./fact-rows.ts";
import { belongsTo, FEEDS, type Feed, messageFor, misfitFor } from "./feeds.ts";
import { type Appended, type Found, forgetFacts, lookUp, secretName } from "./forgotten-facts.ts";
import { CURSORS, Outbox } from "./outbox.ts";

/** The state of a ledger. */
export interface LedgerState {
  /** The position of the oldest kept fact, or `last` plus one if no fact is kept. All facts from this position to `last` are kept. */
  first: number;
  /** The position of the newest fact; 0 for a ledger without facts. */
  last: number;
  /** Number of kept facts, without pruned ones. */
  kept: number;
  /** Number of facts that the consumer has not confirmed, by queue. */
  unconfirmed: Record<Feed, number>;
  bytes: number;
}

/**
 * Time limit for a consumer's confirmation. An unconfirmed fact is sent again after this time, then after doubled times up to
 * `MAX_PAUSE_MS`.
 */
const CONFIRM_WITHIN_MS = 10_000;
const MAX_PAUSE_MS = 600_000;
/** Maximum number of facts that one slice sends again. */
const RESEND_FACTS = 500;
/**
 * Number of rounds in which a queue that does not report its backlog counts as full. These rounds, with their growing pauses, take ten
 * minutes in total.
 */
const PATIENT_ROUNDS = 6;

/**
 * The ledger of one entity of one tenant. The ledger stores each fact once and unchanged, in the order of recording. The stored facts are
 * also the outbox: an alarm sends each fact again that a feed's consumer has not confirmed in time. Therefore no fact is lost if a queue
 * loses data or a process crashes.
 */
export class Ledger extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;
  readonly #tables = new Tables(this.ctx.storage, "facts", SCHEMA);
  readonly #rows = new FactRows(this.#sql);
  readonly #size = new SizeWatch(this.ctx, this.env, "LEDGER");
  readonly #outboxes = { projections: new Outbox(this.#sql, "projections"), "fact-processing": new Outbox(this.#sql, "fact-processing") };
  /** The time for which the alarm is set; null if the alarm is not set. The time is cached, so that setting the alarm needs no read. */
  #ringsAt: number | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    void ctx.blockConcurrencyWhile(async () => {
      this.#ringsAt = await ctx.storage.getAlarm();
    });
  }

  /**
   * Appends facts in one write. When the call returns, the facts are durable and their sending has begun. `said` contains, at the fact's
   * index, the fingerprint of the original fact, if the fact contains a pseudonym instead of an id.
   */
  async append(from: Provenance, facts: readonly StatedFact[], said: readonly (string | null)[] = []): Promise<Appended[]> {
    this.#tables.make();
    const fresh: RecordedFact[] = [];
    const answers = this.ctx.storage.transactionSync(() => facts.map((fact, at) => this.#appendOne(from, fact, said[at] ?? null, fresh)));
    if (fresh.length > 0) {
      // No `await` is between the writes of the facts and of the alarm. Therefore both are written in one transaction, and no fact remains
      // unsent.
      this.#wakeBy(Date.now() + CONFIRM_WITHIN_MS);
      this.ctx.waitUntil(Promise.all(FEEDS.map((feed) => this.#send(feed, fresh))));
      this.#size.check();
    }
    return answers;
  }

  /**
   * Records that a consumer has received these facts, or has stored these facts as dead letters. The confirmation is written before the
   * response. Otherwise an evicted object would send confirmed facts again in its next round. Confirmations of another epoch are ignored.
   */
  confirm(feed: Feed, sequences: readonly number[], epoch: number): void {
    if (this.#tables.made) this.#outboxes[feed].confirm(sequences, epoch, this.#rows.last());
  }

  /** Returns facts after a position, oldest first. */
  read(after: number, limit: number): RecordedFact[] {
    return this.#tables.made ? this.#rows.behind(after, limit).map((body) => JSON.parse(body) as RecordedFact) : [];
  }

  /**
   * Returns a page of facts after a position, optionally only facts recorded until a time. The positions of these facts have no gaps,
   * because the ledger's clock never goes back.
   */
  page(after: number, bounds: PageBounds): LedgerPage {
    return this.#tables.made ? this.#rows.page(after, bounds) : { facts: [], last: 0, more: false };
  }

  state(): LedgerState {
    if (!this.#tables.made) return { first: 1, last: 0, kept: 0, unconfirmed: { projections: 0, "fact-processing": 0 }, bytes: 0 };
    const [first, last] = [this.#rows.first(), this.#rows.last()];
    const { projections, "fact-processing": processing } = this.#outboxes;
    return {
      first,
      last,
      kept: last - first + 1,
      unconfirmed: { projections: projections.count(last), "fact-processing": processing.count(last) },
      bytes: this.#size.bytes,
    };
  }

  /** The kept facts with the given names, as JSON, in order. */
  named(factIds: readonly string[]): string[] {
    return this.#tables.made ? this.#rows.named(factIds) : [];
  }

  /** The names of the facts at these positions. Positions without a kept fact are omitted. */
  namesAt(places: readonly number[]): { sequence: number; fact_id: string }[] {
    return this.#tables.made ? this.#rows.namesAt(places) : [];
  }

  /** Sends all kept facts to a feed again, from the oldest. */
  replay(feed: Feed): void {
    if (!this.#tables.made) return;
    this.#outboxes[feed].restart(this.#rows.first() - 1);
    this.#wakeBy(Date.now());
  }

  /**
   * Deletes old facts after they are archived, but keeps the facts' names, so that repeated facts are recognised. The first unconfirmed
   * fact and all later facts remain. Returns the number of deleted facts.
   */
  async prune(recordedBefore: number, limit: number): Promise<number> {
    if (!this.#tables.made) return 0;
    const old = this.#rows.before(this.#firstThatStays(recordedBefore), limit);
    const last = old.at(-1)?.sequence;
    if (last === undefined) return 0;
    const { PAYLOADS: bucket } = this.env;
    const archived = old.map(({ body }) => body);
    const file = await archiveFacts(bucket, archived);
    const isSame = this.#rows.before(last + 1, limit).every(({ body }, index) => body === archived[index]);
    if (!isSame) {
      // A person was forgotten during the write, and the archive file still contains the person's id.
      if (file !== undefined) await bucket.delete(file);
      return 0;
    }
    return this.ctx.storage.transactionSync(() => {
      // A replay may have begun during the write. Facts that are unconfirmed again because of the replay remain.
      const gone = this.#sql.exec<{ sequence: number; fact_id: string; fingerprint: string }>(
        "DELETE FROM facts WHERE sequence < ? RETURNING sequence, fact_id, fingerprint",
        Math.min(last + 1, this.#firstThatStays(recordedBefore)),
      );
      const names = [...gone];
      this.#sql.exec(
        `INSERT INTO pruned (fact_id, sequence, fingerprint)
         SELECT value->>'fact_id', value->>'sequence', value->>'fingerprint' FROM json_each(?)`,
        JSON.stringify(names),
      );
      return names.length;
    });
  }

  /** Sends unconfirmed facts again, slice by slice, and then pauses. The pause grows after each round without a confirmation. */
  override async alarm(): Promise<void> {
    this.#ringsAt = null;
    try {
      await this.#round();
    } catch (error) {
      // The platform stops a failing alarm after six tries, so errors are caught here and the alarm is set again.
      logLine("error", { log: "ledger", round: false, error: errors.messageOf(error) });
      this.#wakeBy(Date.now() + MAX_PAUSE_MS);
    }
  }

  async #round(): Promise<void> {
    const open = FEEDS.filter((feed) => this.#outboxes[feed].unconfirmed({ limit: 1 }).length > 0);
    for (const feed of FEEDS) if (!open.includes(feed)) this.#outboxes[feed].settle(this.#rows.last());
    // If all facts are confirmed, which is usual, the queues are not queried.
    const oldest = open.length > 0 ? await engineOutbox.oldestWaiting(this.env, open) : new Map<string, number>();
    for (const feed of open) await this.#resend(feed, oldest.get(feed) ?? Number.POSITIVE_INFINITY);
  }

  /**
   * Sends one slice of a round. Facts that may be in transit are skipped. These are recent facts, and facts that were sent after the oldest
   * message in the queue.
   */
  async #resend(feed: Feed, oldestInQueueAt: number): Promise<void> {
    const outbox = this.#outboxes[feed];
    const { resent, rounds, beganAt, everything } = outbox.round();
    const now = Date.now();
    // A queue that does not report its content is probably overloaded, and more messages would increase the overload.
    const oldestWaitingAt =
      oldestInQueueAt === engineOutbox.unknown && rounds >= PATIENT_ROUNDS ? Number.POSITIVE_INFINITY : oldestInQueueAt;
    const recordedBy = everything ? now : Math.min(now - CONFIRM_WITHIN_MS, oldestWaitingAt - 1);
    const waits = !everything && resent === 0 && beganAt >= oldestWaitingAt;
    const slice = waits ? [] : outbox.unconfirmed({ after: resent, recordedBy, limit: RESEND_FACTS });
    const facts = this.#rows.at(slice).map((body) => JSON.parse(body) as RecordedFact);
    await this.#send(feed, facts);
    const full = slice.length === RESEND_FACTS;
    const began = slice.length > 0 && resent === 0 ? now : beganAt;
    outbox.noteRound({
      resent: full ? (slice.at(-1) ?? 0) : 0,
      rounds: rounds + (full ? 0 : 1),
      beganAt: began,
      everything: full ? everything : 0,
    });
    this.#wakeBy(full ? now : now + Math.min(CONFIRM_WITHIN_MS * 2 ** rounds, MAX_PAUSE_MS));
  }

  /** Uses `forgetFacts` to replace a person's ids in facts that all consumers have. */
  forget(person: Person, tenantId: string, apply: boolean): Found {
    if (!this.#tables.made) return { changed: 0, waiting: 0 };
    const open = FEEDS.flatMap((feed) => this.#outboxes[feed].unconfirmed({ limit: this.#rows.last() + 1 }));
    return forgetFacts(this.ctx.storage, person, { open: new Set(open), nameOf: (name) => secretName(this.env, tenantId, name), apply });
  }

  erase(): Promise<boolean> {
    return this.#tables.erase();
  }

  #appendOne(from: Provenance, fact: StatedFact, said: string | null, fresh: RecordedFact[]): Appended {
    const { fact_id } = fact;
    const { fingerprint, known } = lookUp(this.#sql, fact, said, secretName(this.env, from.tenant_id, fact_id));
    if (known) return known;
    const sequence = this.#rows.last() + 1;
    // Recording times never decrease, even if a machine's clock goes back. Therefore all facts that were recorded until a given time
    // precede all later facts.
    const recordedAt = Math.max(Date.now(), this.#rows.newestRecordedAt());
    const recorded: RecordedFact = { ...fact, ...from, sequence, recorded_at: new Date(recordedAt).toISOString() };
    this.#sql.exec(
      "INSERT INTO facts (sequence, fact_id, type, fingerprint, body, recorded_at) VALUES (?, ?, ?, ?, ?, ?)",
      sequence,
      fact_id,
      fact.type,
      fingerprint,
      JSON.stringify(recorded),
      recordedAt,
    );
    fresh.push(recorded);
    return { fact_id, sequence, outcome: "appended" };
  }

  /**
   * Sends facts to a feed. The alarm repeats failed sends. A fact that cannot be converted to a message does not delay the sending of other
   * facts.
   */
  async #send(feed: Feed, facts: readonly RecordedFact[]): Promise<void> {
    const belonging = facts.filter((fact) => belongsTo(feed, fact));
    const epoch = this.#outboxes[feed].epoch();
    const made = await Promise.allSettled(belonging.map((fact) => this.#messageFor(feed, fact, epoch)));
    for (const [index, one] of made.entries()) {
      if (one.status === "fulfilled") continue;
      const { reason: error } = one;
      logLine("error", {
        log: "ledger",
        feed,
        sequence: belonging[index]?.sequence,
        code: errors.codeOf(error),
        error: errors.messageOf(error),
      });
    }
    await engineOutbox.relay(
      this.env,
      made.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])),
    );
  }

  /**
   * Creates the message of a fact. A fact that no longer matches its type is sent unchanged, and the consumer stores this fact as a dead
   * letter.
   */
  #messageFor(feed: Feed, fact: RecordedFact, epoch: number) {
    return messageFor(this.env.PAYLOADS, feed, fact, epoch).catch((error) => {
      if (errors.codeOf(error) !== "invalid_payload") throw error;
      return misfitFor(this.env.PAYLOADS, feed, fact, epoch);
    });
  }

  /** Returns the position of the first fact that is recent or unconfirmed. */
  #firstThatStays(recordedBefore: number): number {
    const stays = FEEDS.flatMap((feed) => this.#outboxes[feed].unconfirmed({ limit: 1 }));
    const young = "SELECT sequence FROM facts WHERE recorded_at >= ? ORDER BY sequence LIMIT 1";
    for (const { sequence } of this.#sql.exec<{ sequence: number }>(young, recordedBefore)) stays.push(sequence);
    return Math.min(Number.MAX_SAFE_INTEGER, ...stays);
  }

  #wakeBy(at: number): void {
    if (this.#ringsAt !== null && this.#ringsAt <= at) return;
    this.#ringsAt = at;
    void this.ctx.storage.setAlarm(at);
  }
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS facts (
    sequence INTEGER PRIMARY KEY, fact_id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, fingerprint TEXT NOT NULL, body TEXT NOT NULL,
    recorded_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS pruned (fact_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, fingerprint TEXT NOT NULL) STRICT, WITHOUT ROWID;
  ${CURSORS}`;
