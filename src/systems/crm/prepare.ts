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

/** Whose contacts are brought to the CRM, and by what. */
export interface PushCall {
  env: Cloudflare.Env;
  tenantId: string;
  /** Names the step, and the effect to the CRM. */
  key: string;
  /** The job's. */
  trace: TraceContext;
}

/** How thorough it is. */
export interface Thoroughness {
  /** Also reads records of which nothing changed here. */
  compare?: boolean;
  /** Makes the record of a contact anew that was deleted in the CRM, or is not its own: so it reads each. */
  revive?: boolean;
  /** Takes it for right however many records are gone. */
  mayCut?: boolean;
  /** Keeps on record what is to be done, for steps of their own. */
  inSteps?: boolean;
}

/** Records of one push that may be gone before a person is asked: so many, or this share of those that were looked at. */
const MAY_BE_GONE = { records: 10, share: 1 / 4 };

/** Which contact each one is known as. */
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

/** What a contact changed here, against what the CRM is known to have of it. */
export function changesOf(env: object, { contact, link }: Candidate): Record<string, string> {
  return settle(toProperties(env, contact, link?.known), link?.known ?? {}, null, link?.maybe).send;
}

/**
 * Reads what is there of contacts, with those they are known as, and says what is to be done. Before anything in the CRM is overwritten it
 * is read, so that what a person changed there is taken and not lost; and what is about to be sent is on record when this answers, so that
 * no two pushes have one contact at a time and what an attempt wrote whose end nobody knows is not taken for a person's. Answers `Busy`
 * where it may not begin. Errors: what the CRM's connector throws when a whole call failed.
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
  // What a push that died, or an attempt of this one, may have left there bears our name.
  const mayBeThere = ({ contact, link }: Candidate) => Boolean(link?.maybe.length || before.get(contact.contact_id)?.length);
  // A merged contact's own record can only be merged into one that is there.
  const missing = away.filter((one) => one.link?.crmId || mayBeThere(one)).map(({ contact }) => knownOf(contact.contact_id));
  const there = new Set(own.map(({ contact }) => contact.contact_id));
  const others = await candidatesByIds(
    env.DB,
    tenantId,
    [...new Set(missing)].filter((id) => !there.has(id)),
  );

  const kept = [...own, ...others];
  const ids = [...kept, ...away].map(({ contact }) => contact.contact_id);
  // A push that waits comes here again and again. The database is asked first: the CRM counts each call.
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
  // A merge that was said since then finds these contacts on record, and follows. One that was said before may be news to us.
  const now = await knownAs(call, [...own, ...away]);
  if ([...now].some(([id, as]) => as !== knownOf(id))) throw retryAfter(1000, "Contacts became others while they were on their way.");
  return prepared;
}

/** Whether too many of these contacts' records are gone. */
function lostAmong(kept: readonly Candidate[], recordOf: (candidate: Candidate) => RecordThere): Lost | undefined {
  const lookedAt = kept.filter((one) => recordOf(one).state !== "unread");
  const records = lookedAt.flatMap((one) => (recordOf(one).state === "gone" ? (one.link?.crmId ?? []) : []));
  const gone = records.length;
  if (gone <= MAY_BE_GONE.records || gone <= lookedAt.length * MAY_BE_GONE.share) return undefined;
  return { gone, lookedAt: lookedAt.length, records: records.slice(0, 10) };
}

/** Settles a contact with its record as it was read, and notes what is to be done: nothing for one that is not brought any further. */
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
  // What only the CRM has is nobody's change, and still what the contact lacks.
  if (compare && theirs) settled.take = { ...missingHere(env, contact, theirs.properties), ...settled.take };
  const crmId = isGone ? null : (theirs?.crmId ?? link?.crmId ?? null);
  const readAt = theirs ? Date.parse(theirs.updatedAt) : null;
  const takes = readAt !== null && Object.keys(settled.take).length > 0;
  const patch = takes ? asPatch(contact, settled.take, { ...ours, ...settled.take }) : null;
  const change = { readAt, settled, patch, takes: patch && isChange(contact, patch) ? 1 : 0 } as const;
  work.push({ id, revision, crmId, ...(isAnother && { isAnother }), ...change, maybe });
}
