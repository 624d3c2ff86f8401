import { ids } from "millrace";
import type { RecordedFact, StatedFact } from "../../../messages/fact.ts";
import { type Person, Traces } from "../../contacts/traces.ts";

/** The result of appending a fact: recorded, known from before, or refused because another fact has the same name. */
export interface Appended {
  fact_id: string;
  sequence: number;
  outcome: "appended" | "duplicate" | "differs";
}

/** Counts of the facts that mention a person: rewritten facts, and facts whose delivery is not confirmed yet. */
export interface Found {
  changed: number;
  waiting: number;
}

export function fingerprintOfFact({ type, subtype, occurred_at, payload }: StatedFact): string {
  return ids.fingerprint([type, subtype ?? null, Date.parse(occurred_at), payload]);
}

/**
 * Returns the fingerprint of a fact, and the recorded fact with the same name. That name may have been replaced when a contact was
 * forgotten. Such a recorded fact has two fingerprints, for its original content and for its current content.
 */
export function lookUp(
  sql: SqlStorage,
  fact: StatedFact,
  said: string | null,
  secret: string,
): { fingerprint: string; known: Appended | undefined } {
  const { fact_id } = fact;
  const fingerprint = fingerprintOfFact(fact);
  const [known] = sql.exec<{ sequence: number; fingerprint: string }>(
    `SELECT sequence, fingerprint FROM facts WHERE fact_id IN (?1, ?2)
      UNION ALL SELECT sequence, fingerprint FROM pruned WHERE fact_id IN (?1, ?2)`,
    fact_id,
    secret,
  );
  if (!known) return { fingerprint, known };
  const isSame = known.fingerprint.split(" ").some((one) => one === fingerprint || one === said);
  return { fingerprint, known: { fact_id, sequence: known.sequence, outcome: isSame ? "duplicate" : "differs" } };
}

/** The replacement of a fact's name that contained a person's id. */
export function secretName({ MILLRACE_KEY }: Pick<Cloudflare.Env, "MILLRACE_KEY">, tenantId: string, factId: string): string {
  return `forgotten-${ids.signed(MILLRACE_KEY, "fact", tenantId, factId)}`;
}

/** The parameters of a search for a person in a ledger. */
interface Search {
  /** Positions of facts whose delivery is not confirmed. Queues may contain copies of these facts with the old content. */
  open: ReadonlySet<number>;
  nameOf: (factId: string) => string;
  apply: boolean;
}

/**
 * Replaces a person's ids by pseudonyms in a ledger's tables. Positions, amounts and consequences of a fact are unchanged. A fact whose
 * name contained the person's id can also be found by an HMAC of that name. In this way a repetition of the fact is recognised.
 */
export function forgetFacts(storage: DurableObjectStorage, person: Person, search: Search): Found {
  return storage.transactionSync(() => forgetIn(storage.sql, person, search));
}

function forgetIn(sql: SqlStorage, person: Person, { open, nameOf, apply }: Search): Found {
  const traces = new Traces(person, nameOf);
  const mentions = JSON.stringify(traces.mentions);
  const says = (column: string) => `EXISTS (SELECT 1 FROM json_each(?) m WHERE instr(lower(${column}), m.value) > 0)`;
  const found = { changed: 0, waiting: 0 };
  const bodies = sql.exec<{ sequence: number; body: string }>(`SELECT sequence, body FROM facts WHERE ${says("body")}`, mentions);
  for (const { sequence, body } of bodies.toArray()) {
    const rewritten = traces.rewrite("body", body);
    if (rewritten === body) continue;
    found[open.has(sequence) ? "waiting" : "changed"]++;
    if (!open.has(sequence) && apply) replace(sql, sequence, rewritten);
  }
  const names = sql.exec<{ fact_id: string }>(`SELECT fact_id FROM pruned WHERE ${says("fact_id")}`, mentions);
  for (const { fact_id } of names.toArray()) {
    if (traces.rewrite("fact_id", fact_id) === fact_id) continue;
    found.changed++;
    if (apply) sql.exec("UPDATE OR REPLACE pruned SET fact_id = ? WHERE fact_id = ?", nameOf(fact_id), fact_id);
  }
  return found;
}

function replace(sql: SqlStorage, sequence: number, body: string): void {
  const is = JSON.parse(body) as RecordedFact;
  sql.exec(
    "UPDATE facts SET fact_id = ?, body = ?, fingerprint = fingerprint || ? WHERE sequence = ?",
    is.fact_id,
    body,
    ` ${fingerprintOfFact(is)}`,
    sequence,
  );
}
