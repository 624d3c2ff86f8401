import { retryAfter, type TraceContext } from "millrace";
import type { Crm } from "../../providers/index.ts";
import { resolveContacts } from "../facts/derived/contact-books.ts";
import { type Candidate, candidatesByIds } from "./links.ts";
import type { Prepared } from "./prepared.ts";
import { asPatch, isChange, missingHere, type Properties, toProperties } from "./properties.ts";
import type { Lost } from "./pushed.ts";
import { isForeign, type RecordThere, readByName, readRecords } from "./records.ts";
import { type Busy, beginSend, busyWith, type SentContact, sentBefore } from "./sends.ts";
import { settle } from "./settle.ts";

/** The contacts to push, and the step that pushes these contacts. */
export interface PushCall {
  env: Cloudflare.Env;
  tenantId: string;
  /** The name of the step, which also identifies the step's effect on the CRM. */
  key: string;
  /** The trace of the job. */
  trace: TraceContext;
}

export interface Thoroughness {
  /** Reads CRM records also for contacts that are unchanged on our side. */
  compare?: boolean;
  /**
   * Creates a new record for a contact whose record was deleted in the CRM or does not have the contact's key. With this option each record
   * is read.
   */
  revive?: boolean;
  /** Accepts any number of missing records without a question to an operator. */
  mayCut?: boolean;
  /** Stores the values to send, so that separate steps can send these values. */
  inSteps?: boolean;
}

/**
 * A push with at most this number of missing records needs no question to an operator. The same applies to at most this share of the read
 * records.
 */
const MAY_BE_GONE = { records: 10, share: 1 / 4 };

/** Returns, for each of the contacts, the contact of which it is an alias, or the contact itself. */
export function knownAs(
  { env, tenantId }: Pick<PushCall, "env" | "tenantId">,
  candidates: readonly Candidate[],
): Promise<Map<string, string>> {
  return resolveContacts(
    env,
    tenantId,
    candidates.map(({ contact }) => contact.contact_id),
  );
}

/** Returns the contact's changes that the CRM does not have according to its last known state. */
export function changesOf(env: object, { contact, link }: Candidate): Record<string, string> {
  return settle(toProperties(env, contact, link?.known), link?.known ?? {}, null, link?.maybe).send;
}

/**
 * Reads the records of contacts, and plans the calls. For an alias, the record of the alias's contact is read too. Each record is read
 * before the push overwrites the record, so that a person's changes in the CRM are copied and not lost. The values to send are stored
 * before the function returns. Therefore no two pushes reserve the same contact. Values that an attempt with an unknown outcome wrote do
 * not count as a person's changes. Returns `Busy` if another push has reserved one of the contacts. Throws the errors of the CRM's
 * connector if a whole call failed.
 */
export async function prepare(
  call: PushCall,
  upstream: Crm,
  asked: readonly Candidate[],
  canonical: ReadonlyMap<string, string>,
  how: Thoroughness,
): Promise<Prepared | Busy | { lost: Lost }> {
  const { env, tenantId } = call;
  const knownOf = (id: string) => canonical.get(id) ?? id;
  const away = asked.filter(({ contact: { contact_id: id } }) => knownOf(id) !== id);
  const own = asked.filter(({ contact: { contact_id: id } }) => knownOf(id) === id);
  const { before, account } = await sentBefore(env, { tenantId, sendId: call.key });
  // True if an interrupted push, or an earlier attempt, may have written values to a record with our key.
  const mayBeThere = ({ contact, link }: Candidate) => Boolean(link?.maybe.length || before.get(contact.contact_id)?.length);
  // An alias's record can only be merged into an existing record, so the contact of each alias must be pushed too.
  const missing = away.filter((one) => one.link?.crmId || mayBeThere(one)).map(({ contact }) => knownOf(contact.contact_id));
  const there = new Set(own.map(({ contact }) => contact.contact_id));
  const others = await candidatesByIds(
    env.DB,
    tenantId,
    [...new Set(missing)].filter((id) => !there.has(id)),
  );

  const kept = [...own, ...others];
  const ids = [...kept, ...away].map(({ contact }) => contact.contact_id);
  // A push that waits for another push runs this code repeatedly. The database is queried first, because the CRM counts calls.
  const waits = ids.length > 0 && (await busyWith(env.DB, tenantId, ids, call.key));
  if (waits) return waits;
  const isKept = new Set(missing);
  const linked = await readRecords(call, upstream, [
    ...kept.filter(
      (one) =>
        how.compare ||
        how.revive ||
        isForeign({ category: one.link?.error ?? null }) ||
        isKept.has(one.contact.contact_id) ||
        before.has(one.contact.contact_id) ||
        Object.keys(changesOf(env, one)).length > 0,
    ),
    ...away,
  ]);
  const unnamed = [...kept, ...away].filter((one) => mayBeThere(one) && (!one.link?.crmId || linked(one).state === "gone"));
  const named = await readByName(call, upstream, unnamed);
  const recordOf = (one: Candidate) => named.get(one.contact.contact_id) ?? linked(one);
  const lost = !how.mayCut && !how.revive && lostAmong(kept, recordOf);
  if (lost) return { lost };
  const prepared: Prepared = { lookedAt: Date.now(), work: [], away: [], asked: [...there], cut: [], refused: [] };
  const { work } = prepared;
  for (const one of kept) compare(call, one, recordOf(one), before.get(one.contact.contact_id) ?? [], how, prepared);
  prepared.away = away.map((one) => {
    const { contact_id: id, revision } = one.contact;
    return { id, revision, into: knownOf(id), crmId: one.link?.crmId ?? null, record: recordOf(one) };
  });
  const sends = new Map(work.map(({ id, settled: { send }, maybe }) => [id, Object.keys(send).length > 0 ? [...maybe, send] : maybe]));
  const contacts: SentContact[] = [...kept, ...away].map(({ contact: { contact_id: id }, link }) => ({
    id,
    version: link?.version ?? 0,
    sent: sends.get(id) ?? before.get(id) ?? [],
  }));
  const [first] = contacts;
  if (how.inSteps && first) first.plan = prepared;
  const busy = await beginSend(env.DB, { tenantId, sendId: call.key }, account, contacts);
  if (busy) return busy;
  // A merge that is published after the reservation waits until this push has ended. A merge that was published before the reservation may
  // be unknown to this push.
  const now = await knownAs(call, [...own, ...away]);
  if ([...now].some(([id, as]) => as !== knownOf(id))) throw retryAfter(1000, "Contacts were merged into others during the push.");
  return prepared;
}

/** Returns the missing records of these contacts if more are missing than a push accepts without a question; otherwise undefined. */
function lostAmong(kept: readonly Candidate[], recordOf: (candidate: Candidate) => RecordThere): Lost | undefined {
  const lookedAt = kept.filter((one) => recordOf(one).state !== "unread");
  const records = lookedAt.flatMap((one) => (recordOf(one).state === "gone" ? (one.link?.crmId ?? []) : []));
  const gone = records.length;
  if (gone <= MAY_BE_GONE.records || gone <= lookedAt.length * MAY_BE_GONE.share) return undefined;
  return { gone, lookedAt: lookedAt.length, records: records.slice(0, 10) };
}

/** Compares a contact with its record, and adds the contact's calls to the plan. A contact that is not sent has no calls. */
function compare(
  { env }: PushCall,
  candidate: Candidate,
  record: RecordThere,
  before: readonly Properties[],
  { revive, compare }: Thoroughness,
  { work, cut, refused }: Prepared,
): void {
  const { contact, link } = candidate;
  const { contact_id: id, revision } = contact;
  const isLost = record.state === "refused" && revive && isForeign(record.why);
  if (record.state === "refused" && !isLost) {
    refused.push({ contactId: id, ...record.why });
    return;
  }
  const theirs = record.state === "found" ? record.found : undefined;
  const isGone = !theirs && (link?.state === "cut" || record.state === "gone" || isLost);
  if (isGone && !revive) {
    cut.push({ contactId: id, revision });
    return;
  }
  const isAnother = isGone || (record.state === "found" && record.isAnother);
  const known = isAnother ? {} : (link?.known ?? {});
  const ours = toProperties(env, contact, known);
  const maybe = [...(link?.maybe ?? []), ...before];
  const settled = settle(ours, known, theirs?.properties ?? null, maybe);
  // A known value that exists only in the CRM does not count as a change in the CRM. The value is copied, because the contact does not have
  // it.
  if (compare && theirs) settled.take = { ...missingHere(env, contact, theirs.properties), ...settled.take };
  const crmId = isGone ? null : (theirs?.crmId ?? link?.crmId ?? null);
  const readAt = theirs ? Date.parse(theirs.updatedAt) : null;
  const takes = readAt !== null && Object.keys(settled.take).length > 0;
  const patch = takes ? asPatch(contact, settled.take, { ...ours, ...settled.take }) : null;
  const change = { readAt, settled, patch, takes: patch && isChange(contact, patch) ? 1 : 0 } as const;
  work.push({ id, revision, crmId, ...(isAnother && { isAnother }), ...change, maybe });
}
