import { DurableObject } from "cloudflare:workers";
import { address, fingerprintOf, messageId, nextHop, type Outgoing, relay } from "../engine/index.ts";
import { PROCESSED, type Provenance, type RecordedFact, type StatedFact } from "../facts/fact.ts";
import { ChargeFact, ContactMergedFact, FactRecorded, OutcomeFact, PayoutFact, ReconciliationFact } from "../messages/facts.ts";

/** What became of a fact: taken, known already, or its name belongs to a fact that says something else. */
export interface Appended {
  fact_id: string;
  sequence: number;
  outcome: "appended" | "duplicate" | "differs";
}

/** What a ledger holds. */
export interface LedgerState {
  /** The place of the newest fact; 0 for an empty ledger. */
  last: number;
  /** How many facts are kept: those pruned are not counted. */
  kept: number;
  /** Facts of which a consumer has not said yet that it has them, by queue. */
  unconfirmed: Record<string, number>;
}

/** How long a consumer may take before a fact is sent to it again, doubled at each time up to the longest pause. */
const CONFIRM_WITHIN_MS = 10_000;
const MAX_PAUSE_MS = 600_000;
/** Facts sent again at once. */
const RESEND_FACTS = 500;

/** Which of a ledger's facts go to which queue: all to the projections, and those from which something follows to the processing. */
const FEEDS = {
  projections: { where: "1", event: () => FactRecorded },
  "fact-processing": {
    where: `type IN (${PROCESSED.map((type) => `'${type}'`).join(", ")})`,
    event: (fact: RecordedFact) => EVENTS[fact.type as keyof typeof EVENTS],
  },
} as const;
type Feed = keyof typeof FEEDS;

const FEED_NAMES = Object.keys(FEEDS) as Feed[];

const EVENTS = {
  outcome: OutcomeFact,
  charge: ChargeFact,
  payout: PayoutFact,
  contact_merged: ContactMergedFact,
  reconciliation: ReconciliationFact,
};

/**
 * The ledger of one entity of one tenant: its facts, in the order it took them, each once, for ever the same. The facts are their own
 * outbox: every consumer has a cursor, `through` which it has confirmed all, and `beyond` it single ones. What is not confirmed in
 * time is sent again, by an alarm, so neither a queue that loses its memory nor a process that dies loses a fact on the way.
 */
export class Ledger extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS facts (
        sequence INTEGER PRIMARY KEY, fact_id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, fingerprint TEXT NOT NULL, body TEXT NOT NULL,
        recorded_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE IF NOT EXISTS pruned (fact_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, fingerprint TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS cursors (
        feed TEXT PRIMARY KEY, through INTEGER NOT NULL DEFAULT 0, beyond TEXT NOT NULL DEFAULT '[]', resent INTEGER NOT NULL DEFAULT 0,
        resends INTEGER NOT NULL DEFAULT 0
      ) STRICT, WITHOUT ROWID;
      INSERT OR IGNORE INTO cursors (feed) VALUES ${FEED_NAMES.map((feed) => `('${feed}')`).join(", ")};`);
  }

  /** Appends facts, all of them in one write. They are durable when it answers, and on their way. */
  async append(from: Provenance, facts: readonly StatedFact[]): Promise<Appended[]> {
    const fresh: RecordedFact[] = [];
    const answers = this.ctx.storage.transactionSync(() => facts.map((fact) => this.#appendOne(from, fact, fresh)));
    if (fresh.length > 0) {
      await this.#wakeWithin(CONFIRM_WITHIN_MS);
      this.ctx.waitUntil(this.#send(fresh));
    }
    return answers;
  }

  /** A consumer has these facts, or has captured them as dead letters. */
  confirm(feed: string, sequences: readonly number[]): void {
    if (!(feed in FEEDS)) return;
    const { through, beyond } = this.#cursor(feed as Feed);
    const confirmed = new Set([...beyond, ...sequences.filter((sequence) => sequence > through)]);
    let reached = through;
    const rest = this.#sql.exec<{ sequence: number }>(
      `SELECT sequence FROM facts WHERE sequence > ? AND ${FEEDS[feed as Feed].where} ORDER BY sequence`,
      through,
    );
    for (const { sequence } of rest) {
      if (!confirmed.delete(sequence)) break;
      reached = sequence;
    }
    this.#sql.exec("UPDATE cursors SET through = ?, beyond = ?, resends = 0 WHERE feed = ?", reached, JSON.stringify([...confirmed]), feed);
  }

  /** Facts behind a place, oldest first. */
  read(after: number, limit: number): RecordedFact[] {
    const rows = this.#sql.exec<{ body: string }>("SELECT body FROM facts WHERE sequence > ? ORDER BY sequence LIMIT ?", after, limit);
    return [...rows].map(({ body }) => JSON.parse(body) as RecordedFact);
  }

  state(): LedgerState {
    const { kept } = this.#sql.exec<{ kept: number }>("SELECT count(*) AS kept FROM facts").one();
    const unconfirmed = FEED_NAMES.map((feed) => [feed, this.#unconfirmed(feed, 0, Number.MAX_SAFE_INTEGER).length]);
    return { last: this.#last(), kept, unconfirmed: Object.fromEntries(unconfirmed) };
  }

  /** Sends every fact to the projections again, from the first: a projection that was dropped is made anew. Answers how many there are. */
  async replay(): Promise<number> {
    this.#sql.exec("UPDATE cursors SET through = 0, beyond = '[]', resent = 0, resends = 0 WHERE feed = 'projections'");
    await this.ctx.storage.setAlarm(Date.now());
    return this.state().kept;
  }

  /** Forgets what old facts say, but not their names: stated again, they are still known. Unconfirmed facts stay. Answers how many went. */
  prune(recordedBefore: number, limit: number): number {
    return this.ctx.storage.transactionSync(() => {
      const through = Math.min(...FEED_NAMES.map((feed) => this.#unconfirmed(feed, 0, 1)[0] ?? Number.MAX_SAFE_INTEGER));
      const gone = this.#sql.exec<{ sequence: number; fact_id: string; fingerprint: string }>(
        `DELETE FROM facts WHERE sequence IN (SELECT sequence FROM facts WHERE recorded_at < ? AND sequence < ? ORDER BY sequence LIMIT ?)
         RETURNING sequence, fact_id, fingerprint`,
        recordedBefore,
        through,
        limit,
      );
      const rows = JSON.stringify([...gone]);
      return this.#sql.exec(
        "INSERT INTO pruned (fact_id, sequence, fingerprint) SELECT value->>'fact_id', value->>'sequence', value->>'fingerprint' FROM json_each(?)",
        rows,
      ).rowsWritten;
    });
  }

  /** Sends again what is not confirmed, slice after slice, then waits: longer each time that nobody answers. */
  override async alarm(): Promise<void> {
    for (const feed of FEED_NAMES) {
      const { resent, resends } = this.#cursor(feed);
      const sequences = this.#unconfirmed(feed, resent, RESEND_FACTS);
      if (sequences.length === 0 && resent === 0) continue;
      await this.#sendTo(feed, this.#facts(sequences));
      const last = sequences.length === RESEND_FACTS ? sequences.at(-1) : undefined;
      this.#sql.exec("UPDATE cursors SET resent = ?, resends = resends + ? WHERE feed = ?", last ?? 0, last ? 0 : 1, feed);
      await this.#wakeWithin(last ? 0 : Math.min(CONFIRM_WITHIN_MS * 2 ** resends, MAX_PAUSE_MS));
    }
  }

  #appendOne(from: Provenance, fact: StatedFact, fresh: RecordedFact[]): Appended {
    const { fact_id } = fact;
    const fingerprint = fingerprintOf([fact.type, fact.subtype ?? null, fact.occurred_at, fact.payload]);
    const [known] = this.#sql.exec<{ sequence: number; fingerprint: string }>(
      "SELECT sequence, fingerprint FROM facts WHERE fact_id = ?1 UNION ALL SELECT sequence, fingerprint FROM pruned WHERE fact_id = ?1",
      fact_id,
    );
    if (known) return { fact_id, sequence: known.sequence, outcome: known.fingerprint === fingerprint ? "duplicate" : "differs" };
    const sequence = this.#last() + 1;
    const recordedAt = Date.now();
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

  async #send(facts: readonly RecordedFact[]): Promise<void> {
    await this.#sendTo("projections", facts);
    await this.#sendTo(
      "fact-processing",
      facts.filter(({ type }) => type in EVENTS),
    );
  }

  /** What cannot be sent now, the alarm sends. */
  async #sendTo(feed: Feed, facts: readonly RecordedFact[]): Promise<void> {
    await relay(this.env, await Promise.all(facts.map((fact) => this.#outgoing(feed, fact))));
  }

  async #outgoing(feed: Feed, fact: RecordedFact): Promise<Outgoing> {
    const { entity, fact_id, tenant_id, trace_id, correlation_id, causation_id, sequence } = fact;
    const draft = FEEDS[feed].event(fact).from(fact as never);
    const envelope = await address(this.env.PAYLOADS, draft, {
      tenantId: tenant_id,
      source: LEDGER_SOURCE,
      correlationId: correlation_id,
      causationId: causation_id,
      traceparent: nextHop(`00-${trace_id}-${"1".padStart(16, "0")}-01`),
      idempotencyKey: `${entity}/${fact_id}`,
      sequence,
      owner: `${feed}-${fact_id}`,
    });
    return { id: messageId(envelope), queue: feed, delaySeconds: 0, body: JSON.stringify(envelope) };
  }

  /** Pruned facts stand before those that are kept. */
  #last(): number {
    const newest = "SELECT coalesce((SELECT max(sequence) FROM facts), (SELECT max(sequence) FROM pruned), 0) AS last";
    return this.#sql.exec<{ last: number }>(newest).one().last;
  }

  #facts(sequences: readonly number[]): RecordedFact[] {
    const query = "SELECT body FROM facts WHERE sequence IN (SELECT value FROM json_each(?)) ORDER BY sequence";
    return [...this.#sql.exec<{ body: string }>(query, JSON.stringify(sequences))].map(({ body }) => JSON.parse(body) as RecordedFact);
  }

  #cursor(feed: Feed): { through: number; beyond: number[]; resent: number; resends: number } {
    const query = "SELECT through, beyond, resent, resends FROM cursors WHERE feed = ?";
    const row = this.#sql.exec<{ through: number; beyond: string; resent: number; resends: number }>(query, feed).one();
    return { ...row, beyond: JSON.parse(row.beyond) as number[] };
  }

  /** Places behind `after` that a feed's consumer has not confirmed, oldest first. */
  #unconfirmed(feed: Feed, after: number, limit: number): number[] {
    const { through, beyond } = this.#cursor(feed);
    const rows = this.#sql.exec<{ sequence: number }>(
      `SELECT sequence FROM facts WHERE sequence > ? AND ${FEEDS[feed].where} AND sequence NOT IN (SELECT value FROM json_each(?)) ORDER BY sequence LIMIT ?`,
      Math.max(through, after),
      JSON.stringify(beyond),
      limit,
    );
    return [...rows].map(({ sequence }) => sequence);
  }

  /** Makes sure the alarm rings by then; one that is set already stays. */
  async #wakeWithin(ms: number): Promise<void> {
    if ((await this.ctx.storage.getAlarm()) === null) await this.ctx.storage.setAlarm(Date.now() + ms);
  }
}

/** What a ledger's messages say as their source; their subject is its entity. */
export const LEDGER_SOURCE = "ledger";
