import { retryAfter, type TraceContext } from "../engine/index.ts";
import { resolveContacts } from "../objects/contact-books.ts";
import { type Crm, type CrmRefusal, crm } from "../providers/index.ts";
import { companyKey, contactKey } from "./keys.ts";
import { type Candidate, candidatesByIds } from "./links.ts";
import { mergeRecords } from "./merge-records.ts";
import { asPatch, isChange, missingHere, type Properties, toProperties } from "./properties.ts";
import type { Lost, Pushed } from "./pushed.ts";
import { isForeign, type RecordThere, readRecords } from "./records.ts";
import { type Busy, beginSend, sentBefore } from "./sends.ts";
import { type Settled, settle } from "./settle.ts";

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
interface Thoroughness {
  /** Also reads records of which nothing changed here. */
  compare?: boolean;
  /** Makes the record of a contact anew that was deleted in the CRM. */
  revive?: boolean;
  /** Takes it for right however many records are gone. */
  mayCut?: boolean;
}

/** Records of one push that may be gone before a person is asked: so many, or this share of those that were looked at. */
const MAY_BE_GONE = { records: 10, share: 1 / 4 };

/** A contact on its way. */
interface Work {
  candidate: Candidate;
  id: string;
  crmId: string | null;
  readAt: number | null;
  settled: Settled;
  maybe: readonly Properties[];
}

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
 * Brings contacts to the CRM, as many as one call of it takes, with those they are known as. It only reads and calls: every call bears
 * repetition, and what became of it is the caller's to write. Before anything there is overwritten it is read, so that what a person
 * changed in the CRM is taken and not lost; and what is about to be sent is on record, so that no two pushes have one contact at a time and
 * what an attempt wrote whose end nobody knows is not taken for a person's. Answers `Busy` where it may not begin. Errors: what the CRM's
 * connector throws when a whole call failed.
 */
export async function push(
  call: PushCall,
  asked: readonly Candidate[],
  canonical: ReadonlyMap<string, string>,
  how: Thoroughness = {},
): Promise<Pushed | Busy> {
  const { env, tenantId } = call;
  const upstream = crm(env, tenantId);
  const options = { key: call.key, trace: call.trace };
  const knownOf = (id: string) => canonical.get(id) ?? id;
  const away = asked.filter(({ contact: { contact_id: id } }) => knownOf(id) !== id);
  const own = asked.filter(({ contact: { contact_id: id } }) => knownOf(id) === id);
  // A merged contact's own record can only be merged into one that is there.
  const missing = away.filter(({ link }) => link?.crmId).map(({ contact }) => knownOf(contact.contact_id));
  const there = new Set(own.map(({ contact }) => contact.contact_id));
  const others = await candidatesByIds(
    env.DB,
    tenantId,
    [...new Set(missing)].filter((id) => !there.has(id)),
  );
  const { before, account } = await sentBefore(env, { tenantId, sendId: call.key });

  const pushed: Pushed = { links: [], takes: [], merged: [], cut: [], refused: [], synced: [], skipped: 0 };
  const kept = [...own, ...others];
  const isKept = new Set(missing);
  const recordOf = await readRecords(call, upstream, [
    ...kept.filter(
      (one) =>
        how.compare ||
        isKept.has(one.contact.contact_id) ||
        before.has(one.contact.contact_id) ||
        Object.keys(changesOf(env, one)).length > 0,
    ),
    ...away,
  ]);
  const lost = !how.mayCut && !how.revive && lostAmong(kept, recordOf);
  if (lost) return { ...pushed, lost };
  const work = kept.flatMap((one) => compared(call, one, recordOf(one), before.get(one.contact.contact_id) ?? [], how, pushed));
  pushed.skipped = pushed.cut.filter(({ contactId }) => there.has(contactId)).length;
  const sends = new Map(work.map(({ id, settled: { send }, maybe }) => [id, Object.keys(send).length > 0 ? [...maybe, send] : maybe]));
  const contacts = [...kept, ...away].map(({ contact: { contact_id: id }, link }) => ({
    id,
    version: link?.version ?? 0,
    sent: sends.get(id) ?? before.get(id) ?? [],
  }));
  const busy = await beginSend(env.DB, { tenantId, sendId: call.key }, account, contacts);
  if (busy) return busy;
  // A merge that was said since then finds these contacts on record, and follows. One that was said before may be news to us.
  const now = await knownAs(call, [...own, ...away]);
  if ([...now].some(([id, as]) => as !== knownOf(id))) throw retryAfter(1000, "Contacts became others while they were on their way.");
  const sendings = await sent(call, upstream, work);
  const records = new Map<string, string>();
  for (const { candidate, id, crmId, readAt, settled } of work) {
    const sending = sendings.get(id);
    if (sending?.state === "failed") {
      pushed.refused.push({ contactId: id, ...sending.why });
      continue;
    }
    const record = sending?.crmId ?? crmId;
    if (record === null) continue;
    records.set(id, record);
    const { contact } = candidate;
    const patch = asPatch(contact, settled.take, { ...toProperties(env, contact, candidate.link?.known), ...settled.take });
    const takes = readAt !== null && Object.keys(settled.take).length > 0;
    const unconnected = sending?.unconnected;
    const { company: _, ...known } = { ...settled.seen, ...settled.send };
    pushed.links.push({
      contactId: id,
      crmId: record,
      // A contact without its company is not done: its record is known, and both are tried again.
      revision: unconnected ? 0 : contact.revision,
      takes: !unconnected && takes && isChange(contact, patch) ? 1 : 0,
      known: unconnected ? known : { ...settled.seen, ...settled.send },
      readAt,
    });
    if (takes) pushed.takes.push({ contactId: id, readAt, ...patch });
    if (unconnected) pushed.refused.push({ contactId: id, ...unconnected });
    else if (sending) pushed.synced.push({ contact_id: id, crm_id: record, revision: contact.revision });
    else if (there.has(id)) pushed.skipped++;
  }
  await mergeRecords({ upstream, options, knownOf, recordOf, revive: how.revive ?? false }, away, records, pushed);
  return pushed;
}

/** Whether too many of these contacts' records are gone. */
function lostAmong(kept: readonly Candidate[], recordOf: (candidate: Candidate) => RecordThere): Lost | undefined {
  const lookedAt = kept.filter((one) => recordOf(one).state !== "unread");
  const records = lookedAt.flatMap((one) => (recordOf(one).state === "gone" ? (one.link?.crmId ?? []) : []));
  const gone = records.length;
  if (gone <= MAY_BE_GONE.records || gone <= lookedAt.length * MAY_BE_GONE.share) return undefined;
  return { gone, lookedAt: lookedAt.length, records: records.slice(0, 10) };
}

/** Settles a contact with its record as it was read; nothing for one that is not brought any further. */
function compared(
  { env }: PushCall,
  candidate: Candidate,
  record: RecordThere,
  before: readonly Properties[],
  { revive, compare }: Thoroughness,
  pushed: Pushed,
): Work[] {
  const { contact, link } = candidate;
  const { contact_id: id, revision } = contact;
  const isLost = record.state === "refused" && revive && isForeign(record.why);
  if (record.state === "refused" && !isLost) {
    pushed.refused.push({ contactId: id, ...record.why });
    return [];
  }
  const isGone = link?.state === "cut" || record.state === "gone" || isLost;
  if (isGone && !revive) {
    pushed.cut.push({ contactId: id, revision });
    return [];
  }
  const known = isGone ? {} : (link?.known ?? {});
  const theirs = record.state === "found" ? record.found : undefined;
  const maybe = [...(link?.maybe ?? []), ...before];
  const settled = settle(toProperties(env, contact, known), known, theirs?.properties ?? null, maybe);
  // What only the CRM has is nobody's change, and still what the contact lacks.
  if (compare && theirs) settled.take = { ...missingHere(env, contact, theirs.properties), ...settled.take };
  const crmId = isGone ? null : (theirs?.crmId ?? link?.crmId ?? null);
  return [{ candidate, id, crmId, readAt: theirs ? Date.parse(theirs.updatedAt) : null, settled, maybe }];
}

/** What became of a contact's record. */
type Sending =
  | { state: "failed"; why: CrmRefusal }
  /** `unconnected`: why its company, or their connection, was refused. */
  | { state: "done"; crmId: string; unconnected?: CrmRefusal | undefined };

/** The company that a contact is to be connected with: one that its record, as we last knew it, did not have. */
function employerOf({ settled: { send, seen, take } }: Work): string | undefined {
  return (send.company ?? ("company" in take ? undefined : seen.company))?.trim() || undefined;
}

/** Upserts contacts and their companies, then connects them. Answers what became of each contact by its id; nothing for one without anything to send. */
async function sent({ tenantId, key, trace }: PushCall, upstream: Crm, work: readonly Work[]): Promise<Map<string, Sending>> {
  const options = { key, trace };
  const sending = work.filter(({ settled }) => Object.keys(settled.send).length > 0);
  const employed = work.flatMap((one) => {
    const name = employerOf(one);
    return name ? [{ ...one, employer: companyKey(tenantId, name), name }] : [];
  });
  const records = sending.map(({ id, settled }) => ({ key: contactKey(tenantId, id), properties: settled.send }));
  const companies = [...new Map(employed.map(({ employer, name }) => [employer, name]))].map(([employer, name]) => ({
    key: employer,
    properties: { name },
  }));
  const [people, firms] = await Promise.all([
    records.length > 0 ? upstream.upsert("contacts", records, options) : [],
    companies.length > 0 ? upstream.upsert("companies", companies, options) : [],
  ]);
  const person = new Map(people.map((outcome) => [outcome.key, outcome]));
  const firm = new Map(firms.map((outcome) => [outcome.key, outcome]));
  const sendings = new Map<string, Sending>();
  for (const { id } of sending) {
    const outcome = person.get(contactKey(tenantId, id));
    if (!outcome) throw new Error(`The CRM said nothing of the contact ${id}.`);
    sendings.set(id, outcome.state === "done" ? { state: "done", crmId: outcome.crmId } : { state: "failed", why: outcome });
  }
  const pairs: { id: string; contact: string; company: string }[] = [];
  for (const { id, crmId, employer } of employed) {
    const [taken, company] = [sendings.get(id), firm.get(employer)];
    const contact = taken ? taken.state === "done" && taken.crmId : crmId;
    if (!contact || !company) continue;
    if (company.state === "done") pairs.push({ id, contact, company: company.crmId });
    else sendings.set(id, { state: "done", crmId: contact, unconnected: company });
  }
  const unconnected =
    pairs.length > 0
      ? await upstream.associate(
          pairs.map(({ contact, company }) => ({ contact, company })),
          options,
        )
      : new Map();
  for (const { id, contact } of pairs) sendings.set(id, { state: "done", crmId: contact, unconnected: unconnected.get(contact) });
  return sendings;
}
