import { DurableObject } from "cloudflare:workers";
import { Tables } from "../../object-tables.ts";
import { foldMerges, type Merge, type OrderedMerge, orderOf } from "../merges.ts";
import { SizeWatch } from "../object-sizes.ts";

/** The identity of a contact after all merges. */
export interface KnownContact {
  contact_id: string;
  /** The canonical contact. A contact that was never merged into another contact is its own canonical contact. */
  canonical_id: string;
  /** All other aliases of the canonical contact, sorted by id, up to a maximum of `LISTED_CONTACTS`. */
  merged: string[];
  merged_count: number;
}

/** Maximum number of aliases in one response. */
const LISTED_CONTACTS = 1000;

/**
 * Stores the merges among one tenant's contacts. All merges are kept. Each merged contact has a row with its canonical contact, so a lookup
 * reads one row. The result depends only on the set of merges, not on the time, order or repetition of the calls.
 */
export class ContactBook extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;
  readonly #tables = new Tables(this.ctx.storage, "merges", SCHEMA);
  readonly #size = new SizeWatch(this.ctx, this.env, "CONTACT_BOOK");

  /** Adds a merge. A merge that was added before changes nothing. */
  merge(merge: Merge): void {
    const { from, into } = merge;
    if (from === into) return;
    this.#tables.make();
    this.#size.check();
    this.ctx.storage.transactionSync(() => {
      const order = orderOf(merge);
      if (
        this.#sql.exec("INSERT INTO merges (place, from_id, into_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", order, from, into)
          .rowsWritten === 0
      )
        return;
      this.#sql.exec("INSERT INTO contacts (contact_id, canonical_id) VALUES (?1, ?1), (?2, ?2) ON CONFLICT DO NOTHING", from, into);
      const [one, other] = [this.#canonical(from), this.#canonical(into)];
      const ofOne = this.#newest(one);
      const newest = [order, ofOne, this.#newest(other)].sort().at(-1) ?? order;
      // If the contact `from` is in no other merge, later merges of other contacts do not affect this merge.
      const isAlone = one === from && ofOne === "";
      // The newest of all merges only joins two groups. If a merge arrives late, later merges may exist, so the canonical contact of both
      // groups is computed again.
      const canonical = isAlone || newest === order ? other : this.#fold(one, other);
      // Only contacts with a changed canonical contact are updated, because the two groups may have very many contacts.
      for (const loser of new Set([one, other])) {
        if (loser !== canonical) this.#sql.exec("UPDATE contacts SET canonical_id = ?1 WHERE canonical_id = ?2", canonical, loser);
      }
      this.#sql.exec("UPDATE contacts SET newest = ? WHERE contact_id = ?", newest, canonical);
    });
  }

  contact(id: string): KnownContact {
    if (!this.#tables.made) return { contact_id: id, canonical_id: id, merged: [], merged_count: 0 };
    const canonical = this.#canonical(id);
    const others = "FROM contacts WHERE canonical_id = ?1 AND contact_id <> ?1";
    const listed = this.#sql.exec<{ contact_id: string }>(
      `SELECT contact_id ${others} ORDER BY contact_id LIMIT ?2`,
      canonical,
      LISTED_CONTACTS,
    );
    const merged = [...listed].map(({ contact_id }) => contact_id);
    const { count } = this.#sql.exec<{ count: number }>(`SELECT count(*) AS count ${others}`, canonical).one();
    return { contact_id: id, canonical_id: canonical, merged, merged_count: count };
  }

  /** Returns the canonical contact of each given contact, in the order of the given contacts. */
  resolve(ids: readonly string[]): string[] {
    return this.#tables.made ? ids.map((id) => this.#canonical(id)) : [...ids];
  }

  /**
   * Deletes a person's contacts, with every merge that contains one of these contacts. Returns the number of affected rows. A dry run only
   * counts the rows.
   */
  forget(ids: readonly string[], apply: boolean): number {
    if (!this.#tables.made) return 0;
    const list = JSON.stringify(ids);
    const among = "(SELECT value FROM json_each(?1))";
    const where = { merges: `from_id IN ${among} OR into_id IN ${among}`, contacts: `contact_id IN ${among}` };
    return this.ctx.storage.transactionSync(() =>
      Object.entries(where).reduce((sum, [table, named]) => {
        const { count } = this.#sql.exec<{ count: number }>(`SELECT count(*) AS count FROM ${table} WHERE ${named}`, list).one();
        if (apply) this.#sql.exec(`DELETE FROM ${table} WHERE ${named}`, list);
        return sum + count;
      }, 0),
    );
  }

  erase(): Promise<boolean> {
    return this.#tables.erase();
  }

  #canonical(id: string): string {
    const [row] = this.#sql.exec<{ canonical_id: string }>("SELECT canonical_id FROM contacts WHERE contact_id = ?", id);
    return row?.canonical_id ?? id;
  }

  #newest(canonical: string): string {
    const [row] = this.#sql.exec<{ newest: string | null }>("SELECT newest FROM contacts WHERE contact_id = ?", canonical);
    return row?.newest ?? "";
  }

  /** Computes the canonical contact after a merge of two groups, from the merges of both groups and the new merge. */
  #fold(one: string, other: string): string {
    const merges = this.#sql.exec<{ order: string; from: string; into: string }>(
      `SELECT place AS "order", from_id AS "from", into_id AS "into" FROM merges
       WHERE from_id IN (SELECT contact_id FROM contacts WHERE canonical_id IN (?, ?))`,
      one,
      other,
    );
    return foldMerges([...merges] satisfies OrderedMerge[]).get(one) ?? one;
  }
}

// Contacts have the same canonical contact exactly if merges connect them. The row of the canonical contact contains the newest of these
// merges.
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS merges (place TEXT PRIMARY KEY, from_id TEXT NOT NULL, into_id TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS merges_by_from ON merges (from_id);
  CREATE TABLE IF NOT EXISTS contacts (contact_id TEXT PRIMARY KEY, canonical_id TEXT NOT NULL, newest TEXT) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS contacts_by_canonical ON contacts (canonical_id);`;
