import { DurableObject } from "cloudflare:workers";
import { ids } from "millrace";
import { type Person, Traces } from "../../contacts/traces.ts";
import { Tables } from "../../object-tables.ts";
import { SizeWatch } from "../object-sizes.ts";

/** The state of a budget. `remaining_cents` is `limit − spent − held`. */
export interface BudgetState {
  /** Without a limit nothing is granted. */
  limit_cents: number | null;
  spent_cents: number;
  /** The sum of granted amounts that are not charged, released or expired. */
  held_cents: number;
  /** The maximum amount that can be granted now. */
  remaining_cents: number;
  /** The amount by which the spent and held amounts exceed the limit, which is possible after a lower limit or a charge without a hold. */
  over_cents: number;
  /** The operator who set the limit, and the time in milliseconds; null without a limit. */
  limit_set_by: string | null;
  limit_set_at: number | null;
  /** The size of the object's storage. The platform's limit is 10 GB. */
  bytes: number;
}

/** A request for a hold. */
export interface Ask {
  /** The caller's key, which identifies the purpose of the hold. Requests with the same key count as one request. */
  key: string;
  amount_cents: number;
  expires_in_seconds: number;
}

/** The response to a request for a hold. */
export interface Answered {
  granted: boolean;
  /** The id of the hold, which the charge must contain; null if nothing was granted. */
  hold: string | null;
  /** The time at which the hold expires; null if the hold's charge was counted already. */
  expires_at: string | null;
  /** True if the same request was granted before, so that this request held no further amount. */
  replayed: boolean;
  reason: "no_limit" | "not_enough" | null;
  remaining_cents: number;
}

/** The result of a release. `released` is true only for the call that released the hold. */
export interface Released {
  released: boolean;
  state: "held" | "settled" | "released" | "expired" | "unknown";
  remaining_cents: number;
}

/** A charge, identified by its ledger and its position in the ledger. */
export interface Spent {
  entity: string;
  sequence: number;
  amount_cents: number;
  hold?: string | undefined;
}

/** How long an ended hold is stored, so that a repeated request or release gets the same response. */
const REMEMBER_MS = 30 * 86_400_000;
/** Maximum number of old ended holds that each new hold deletes. The maximum exceeds 1, so that more holds are deleted than created. */
const FORGET_HOLDS = 20;
/** Number of a ledger's facts whose marks are in one row. An SQLite integer has this number of usable bits. */
const MARKS = 62;

/**
 * The budget of one account of one tenant. Check and write are atomic. Therefore active holds and charges together do not exceed the limit
 * at the time of a grant, even with concurrent requests. Amounts are whole cents.
 */
export class Budget extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;
  readonly #tables = new Tables(this.ctx.storage, "budget", SCHEMA, CHANGES);
  readonly #size = new SizeWatch(this.ctx, this.env, "BUDGET");

  state(): BudgetState {
    return this.#now(() => this.#state());
  }

  /**
   * Sets the limit. A limit below the spent and held amounts is accepted, but no hold is granted until the sum of both amounts is below the
   * limit.
   */
  setLimit(limitCents: number, who: string): BudgetState {
    this.#tables.make();
    return this.#now((at) => {
      this.#sql.exec("UPDATE budget SET limit_cents = ?1, set_by = ?2, set_at = ?3 WHERE limit_cents IS NOT ?1", limitCents, who, at);
      return this.#state();
    });
  }

  /**
   * Holds an amount if the limit allows it. If the key has an active or charged hold, the response is the same as before. If the key's hold
   * was released or has expired, the request counts as new. Returns undefined if the key was used for another amount, because errors lose
   * their code over RPC.
   */
  ask({ key, amount_cents, expires_in_seconds }: Ask): Answered | undefined {
    return this.#now((at) => {
      const [known] = this.#rows<Hold>("SELECT hold, key, amount, state, until FROM holds WHERE key IN (?, ?)", key, this.#secretKey(key));
      const { limit_cents, remaining_cents } = this.#state();
      if (known?.state === "held" || known?.state === "settled") {
        if (known.amount !== amount_cents) return undefined;
        const expires_at = known.state === "held" ? new Date(known.until).toISOString() : null;
        return { granted: true, hold: known.hold, expires_at, replayed: true, reason: null, remaining_cents };
      }
      if (limit_cents === null || remaining_cents < amount_cents) {
        const reason = limit_cents === null ? "no_limit" : "not_enough";
        return { granted: false, hold: null, expires_at: null, replayed: false, reason, remaining_cents };
      }
      const until = at + expires_in_seconds * 1000;
      const granting = "UPDATE budget SET held = held + ?, granted = granted + 1 RETURNING granted";
      const { granted } = this.#sql.exec<{ granted: number }>(granting, amount_cents).one();
      // A hold's id contains a consecutive number, so that no id is reused and the id of a deleted hold cannot release another hold.
      const hold = ids.digest("hold", key, String(granted));
      this.#sql.exec(
        "INSERT OR REPLACE INTO holds (hold, key, amount, state, until) VALUES (?, ?, ?, 'held', ?)",
        hold,
        known?.key ?? key,
        amount_cents,
        until,
      );
      for (const state of ENDED) this.#sql.exec(FORGET, state, at - REMEMBER_MS, FORGET_HOLDS);
      const remaining = remaining_cents - amount_cents;
      return { granted: true, hold, expires_at: new Date(until).toISOString(), replayed: false, reason: null, remaining_cents: remaining };
    });
  }

  /** Releases a hold. */
  release(hold: string): Released {
    return this.#now((at) => {
      const state = this.#end(hold, "released", at);
      const { remaining_cents } = this.#state();
      return { released: state === "held", state: state === "held" ? "released" : state, remaining_cents };
    });
  }

  /**
   * Counts a charge once, even above the limit, and ends the charge's hold. A charge whose hold has ended before counts too. Returns
   * undefined, and counts nothing, if the sum would exceed the largest exact integer.
   */
  settle({ entity, sequence, amount_cents, hold }: Spent): BudgetState | undefined {
    this.#tables.make();
    return this.#now((at) => {
      if (this.#state().spent_cents + amount_cents > Number.MAX_SAFE_INTEGER) return undefined;
      if (this.#isNew(entity, sequence)) {
        if (hold !== undefined) this.#end(hold, "settled", at);
        this.#sql.exec("UPDATE budget SET spent = spent + ?", amount_cents);
      }
      return this.#state();
    });
  }

  /**
   * Replaces the key of each hold that contains a person's id by an HMAC. A repeated request is recognised by this HMAC. Returns the number
   * of replaced keys.
   */
  forget(person: Person, apply: boolean): number {
    const traces = new Traces(person);
    return this.ctx.storage.transactionSync(() => {
      const meant = this.#rows<{ key: string }>("SELECT key FROM holds").filter(({ key }) => traces.rewrite("hold", key) !== key);
      if (apply) for (const { key } of meant) this.#sql.exec("UPDATE holds SET key = ? WHERE key = ?", this.#secretKey(key), key);
      return meant.length;
    });
  }

  erase(): Promise<boolean> {
    return this.#tables.erase();
  }

  #secretKey(key: string): string {
    return `forgotten-${ids.signed(this.env.MILLRACE_KEY, "hold", key)}`;
  }

  /** Runs a function in a transaction, after expired holds have ended. */
  #now<T>(act: (at: number) => T): T {
    const at = Date.now();
    this.#size.check();
    return this.ctx.storage.transactionSync(() => {
      const expired = this.#rows<{ amount: number }>(
        "UPDATE holds SET state = 'expired' WHERE state = 'held' AND until <= ? RETURNING amount",
        at,
      );
      const freed = expired.reduce((sum, { amount }) => sum + amount, 0);
      if (freed > 0) this.#sql.exec("UPDATE budget SET held = held - ?", freed);
      return act(at);
    });
  }

  #state(): BudgetState {
    const [row = NOTHING] = this.#rows<Totals>("SELECT limit_cents, spent, held, set_by, set_at FROM budget");
    const available = (row.limit_cents ?? 0) - row.spent - row.held;
    return {
      limit_cents: row.limit_cents,
      spent_cents: row.spent,
      held_cents: row.held,
      remaining_cents: Math.max(0, available),
      over_cents: row.limit_cents === null ? 0 : Math.max(0, -available),
      limit_set_by: row.set_by,
      limit_set_at: row.set_at,
      bytes: this.#tables.made ? this.#size.bytes : 0,
    };
  }

  /** Ends an active hold, and returns its previous state. */
  #end(hold: string, state: "settled" | "released", at: number): Released["state"] {
    const [found] = this.#rows<Hold>("SELECT hold, key, amount, state, until FROM holds WHERE hold = ?", hold);
    if (found?.state === "held") {
      this.#sql.exec("UPDATE holds SET state = ?, until = ? WHERE hold = ?", state, at, hold);
      this.#sql.exec("UPDATE budget SET held = held - ?", found.amount);
    }
    return found?.state ?? "unknown";
  }

  /**
   * Marks a fact of a ledger as counted, and returns false if the fact was marked before. A fact's position never changes, so one bit per
   * position is sufficient. A row has the bits of 62 charges. The bits are never deleted, so that even a late replay does not count a
   * charge twice.
   */
  #isNew(entity: string, sequence: number): boolean {
    const { rowsWritten } = this.#sql.exec(
      `INSERT INTO applied (entity, page, marks) VALUES (?1, ?2, 1 << ?3)
       ON CONFLICT DO UPDATE SET marks = marks | excluded.marks WHERE marks & excluded.marks = 0`,
      entity,
      Math.floor(sequence / MARKS),
      sequence % MARKS,
    );
    return rowsWritten > 0;
  }

  /** Returns the rows of a query, or an empty list if the tables do not exist yet. */
  #rows<Row extends Record<string, SqlStorageValue>>(statement: string, ...bindings: SqlStorageValue[]): Row[] {
    return this.#tables.made ? this.#sql.exec<Row>(statement, ...bindings).toArray() : [];
  }
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS budget (
    id INTEGER PRIMARY KEY CHECK (id = 1), limit_cents INTEGER CHECK (limit_cents >= 0),
    spent INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    held INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0), set_by TEXT, set_at INTEGER
  ) STRICT;
  INSERT OR IGNORE INTO budget (id) VALUES (1);
  CREATE TABLE IF NOT EXISTS holds (
    hold TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, amount INTEGER NOT NULL CHECK (amount >= 0),
    state TEXT NOT NULL CHECK (state IN ('held', 'settled', 'released', 'expired')), until INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS holds_by_end ON holds (state, until);
  CREATE TABLE IF NOT EXISTS applied (
    entity TEXT NOT NULL, page INTEGER NOT NULL, marks INTEGER NOT NULL, PRIMARY KEY (entity, page)) STRICT, WITHOUT ROWID;`;

const CHANGES = [
  // Total number of granted holds, deleted holds included.
  "ALTER TABLE budget ADD COLUMN granted INTEGER NOT NULL DEFAULT 0 CHECK (granted >= 0)",
];

interface Totals extends Record<string, SqlStorageValue> {
  limit_cents: number | null;
  spent: number;
  held: number;
  set_by: string | null;
  set_at: number | null;
}

interface Hold extends Record<string, SqlStorageValue> {
  hold: string;
  key: string;
  amount: number;
  state: "held" | "settled" | "released" | "expired";
  until: number;
}

/** The totals of a budget that has no limit, no charge and no hold yet. */
const NOTHING: Totals = { limit_cents: null, spent: 0, held: 0, set_by: null, set_at: null };
const ENDED = ["settled", "released", "expired"] as const;
const FORGET = "DELETE FROM holds WHERE hold IN (SELECT hold FROM holds WHERE state = ? AND until < ? LIMIT ?)";
