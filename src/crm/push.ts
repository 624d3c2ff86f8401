import type { TraceContext } from "../engine/index.ts";
import type { ContactSynced } from "../messages/crm.ts";
import { resolveContacts } from "../objects/contact-books.ts";
import { type Crm, type CrmOutcome, crm } from "../providers/index.ts";
import { companyKey, contactKey } from "./keys.ts";
import { type Candidate, type Closed, candidatesByIds, type LinkWrite, type Take } from "./links.ts";
import { asPatch, isChange, propertyNames, toProperties } from "./properties.ts";
import { type Settled, settle } from "./settle.ts";

/** Whose contacts are brought to the CRM, and by what. */
export interface PushCall {
  env: Cloudflare.Env;
  tenantId: string;
  /** Names the effect to the CRM. */
  key: string;
  /** The job's. */
  trace: TraceContext;
}

/** Why the CRM did not take a contact. */
export interface Refused {
  contactId: string;
  /** True when the same contact may be taken later. */
  retry: boolean;
  category: string;
  message: string;
  correlationId: string | null;
}

/** What became of some contacts in the CRM: everything that is to be written with it. */
export interface Pushed {
  links: LinkWrite[];
  takes: Take[];
  merged: Closed[];
  cut: Closed[];
  refused: Refused[];
  /** Contacts that the CRM took, or has as they are, with its ids for them. */
  synced: Parameters<typeof ContactSynced.from>[0][];
  /** How many of the asked there was nothing to send for. */
  skipped: number;
}

/** What is said of a contact whose record may have become another's: the CRM's notice says whose. */
const MERGED_THERE = {
  retry: true,
  category: "MERGED_IN_CRM",
  message: "Its record is gone, and one of its chunk was merged into another in the CRM. The CRM's notice of that settles it.",
  correlationId: null,
};

/** How thorough it is. */
interface Thoroughness {
  /** Also reads records of which nothing changed here. */
  compare?: boolean;
  /** Makes the record of a contact anew that was deleted in the CRM. */
  revive?: boolean;
}

/** A contact on its way. */
interface Work {
  candidate: Candidate;
  id: string;
  crmId: string | null;
  readAt: number | null;
  settled: Settled;
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
  return settle(toProperties(env, contact, link?.known), link?.known ?? {}, null).send;
}

/**
 * Brings contacts to the CRM, as many as one call of it takes, with those they are known as. It only reads and calls: every call bears
 * repetition, and what became of it is the caller's to write. Before anything there is overwritten it is read, so that what a person
 * changed in the CRM is taken and not lost. Errors: what the CRM's connector throws when a whole call failed.
 */
export async function push(
  call: PushCall,
  asked: readonly Candidate[],
  canonical: ReadonlyMap<string, string>,
  how: Thoroughness = {},
): Promise<Pushed> {
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

  const pushed: Pushed = { links: [], takes: [], merged: [], cut: [], refused: [], synced: [], skipped: 0 };
  const work = await compared(call, upstream, [...own, ...others], how, pushed);
  const outcomes = await sent(call, upstream, work);
  const records = new Map<string, string>();
  for (const { candidate, id, crmId, readAt, settled } of work) {
    const outcome = outcomes.get(id);
    if (outcome?.state === "failed") {
      const { retry, category, message, correlationId } = outcome;
      pushed.refused.push({ contactId: id, retry, category, message, correlationId });
      continue;
    }
    const record = outcome?.crmId ?? crmId;
    if (record === null) continue;
    records.set(id, record);
    const { contact } = candidate;
    const patch = asPatch(contact, settled.take, { ...toProperties(env, contact, candidate.link?.known), ...settled.take });
    const takes = readAt !== null && Object.keys(settled.take).length > 0;
    pushed.links.push({
      contactId: id,
      crmId: record,
      revision: contact.revision,
      takes: takes && isChange(contact, patch) ? 1 : 0,
      known: { ...settled.seen, ...settled.send },
      readAt,
    });
    if (takes) pushed.takes.push({ contactId: id, readAt, ...patch });
    if (outcome) pushed.synced.push({ contact_id: id, crm_id: record, revision: contact.revision });
    else if (there.has(id)) pushed.skipped++;
  }
  await mergeRecords(upstream, away, knownOf, records, pushed, options);
  return pushed;
}

/** Reads what is to be overwritten, and settles each contact with it. */
async function compared(
  { env, key, trace }: PushCall,
  upstream: Crm,
  candidates: readonly Candidate[],
  { compare, revive }: Thoroughness,
  pushed: Pushed,
): Promise<Work[]> {
  const linked = candidates.filter((one) => one.link?.crmId && (compare || Object.keys(changesOf(env, one)).length > 0));
  const crmIds = linked.map(({ link }) => link?.crmId ?? "");
  const answered = crmIds.length > 0 ? await upstream.read(crmIds, { key, trace }, propertyNames(env)) : [];
  const found = new Map(answered.filter(({ archived }) => !archived).map((one) => [one.crmId, one]));
  const reading = new Set(crmIds);
  // A record that was merged there answers under another's id.
  const hasMerged = answered.some(({ crmId }) => !reading.has(crmId));
  return candidates.flatMap((candidate): Work[] => {
    const { contact, link } = candidate;
    const { contact_id: id, revision } = contact;
    const theirs = found.get(link?.crmId ?? "");
    const isGone = link?.state === "cut" || (reading.has(link?.crmId ?? "") && !theirs);
    if (isGone && link?.crmId && hasMerged) {
      pushed.refused.push({ contactId: id, ...MERGED_THERE });
      return [];
    }
    if (isGone && !revive) {
      pushed.cut.push({ contactId: id, revision });
      pushed.skipped++;
      return [];
    }
    const known = isGone ? {} : (link?.known ?? {});
    const settled = settle(toProperties(env, contact, known), known, theirs?.properties ?? null);
    return [{ candidate, id, crmId: isGone ? null : (link?.crmId ?? null), readAt: theirs ? Date.parse(theirs.updatedAt) : null, settled }];
  });
}

/** Upserts contacts and their companies, then connects them. Answers each contact's outcome by its id; none for one without anything to send. */
async function sent({ tenantId, key, trace }: PushCall, upstream: Crm, work: readonly Work[]): Promise<Map<string, CrmOutcome>> {
  const sending = work.filter(({ settled }) => Object.keys(settled.send).length > 0);
  if (sending.length === 0) return new Map();
  const employers = new Map(
    sending.flatMap(({ settled: { send } }) => (send.company ? [[companyKey(tenantId, send.company), send.company.trim()]] : [])),
  );
  const records = sending.map(({ id, settled }) => ({ key: contactKey(tenantId, id), properties: settled.send }));
  const companies = [...employers].map(([key, name]) => ({ key, properties: { name } }));
  const [people, firms] = await Promise.all([
    upstream.upsert("contacts", records, { key, trace }),
    companies.length > 0 ? upstream.upsert("companies", companies, { key, trace }) : [],
  ]);
  const person = new Map(people.map((outcome) => [outcome.key, outcome]));
  const firm = new Map(firms.map((outcome) => [outcome.key, outcome]));
  const outcomes = new Map<string, CrmOutcome>();
  const pairs: { contact: string; company: string }[] = [];
  for (const { id, settled } of sending) {
    const taken = person.get(contactKey(tenantId, id));
    if (!taken) throw new Error(`The CRM said nothing of the contact ${id}.`);
    const employer = settled.send.company ? firm.get(companyKey(tenantId, settled.send.company)) : undefined;
    // A contact without its company is not done: both are tried again.
    outcomes.set(id, taken.state === "done" && employer?.state === "failed" ? employer : taken);
    if (taken.state === "done" && employer?.state === "done") pairs.push({ contact: taken.crmId, company: employer.crmId });
  }
  if (pairs.length > 0) await upstream.associate(pairs, { key, trace });
  return outcomes;
}

/** Merges the records of contacts that became others into theirs, and notes all of those that are others now. */
async function mergeRecords(
  upstream: Crm,
  away: readonly Candidate[],
  knownOf: (id: string) => string,
  records: Map<string, string>,
  pushed: Pushed,
  options: { key: string; trace: TraceContext },
): Promise<void> {
  for (const { contact, link } of away) {
    const { contact_id: id, revision } = contact;
    const into = knownOf(id);
    const [kept, merged] = [records.get(into), link?.crmId];
    if (merged && kept === undefined) {
      const why = pushed.refused.find(({ contactId }) => contactId === into);
      const nowhere = {
        retry: false,
        category: "CANONICAL_MISSING",
        message: `It is known as ${into}, which has no record in the CRM to merge its own into.`,
        correlationId: null,
      };
      pushed.refused.push({ ...(why ?? nowhere), contactId: id });
      continue;
    }
    if (merged && kept !== undefined && kept !== merged) records.set(into, await upstream.merge(kept, merged, options));
    pushed.merged.push({ contactId: id, revision });
  }
  // A merge may give its result an id of its own.
  for (const link of pushed.links) link.crmId = records.get(link.contactId) ?? link.crmId;
  for (const synced of pushed.synced) synced.crm_id = records.get(synced.contact_id) ?? synced.crm_id;
}
