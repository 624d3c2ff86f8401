import { atomically, type Commit, type Envelope, ids, type Statement, texts } from "millrace";
import { ContactSync, type CrmContactChanged } from "../../messages/crm.ts";
import { FactObserved } from "../../messages/facts.ts";
import { type CrmFound, crm } from "../../providers/index.ts";
import { createContact, newContactId } from "../contacts/contact.ts";
import { forgottenAmong, pseudonymOf } from "../contacts/forgotten.ts";
import { type Account, noteAccount } from "./account.ts";
import { asError, asStopped } from "./failures.ts";
import { contactKey, contactOf } from "./keys.ts";
import {
  type Candidate,
  candidatesByIds,
  closeLinks,
  contactsLinkedTo,
  type Link,
  newlyKnown,
  noteRefusals,
  takeOver,
  writeLinks,
} from "./links.ts";
import { freeIdFor, idOfMade, ofSameAddress } from "./made-there.ts";
import { knownAs } from "./prepare.ts";
import { asPatch, isChange, isTakeable, type Properties, propertyNames, toProperties } from "./properties.ts";
import { foreign, readRecords } from "./records.ts";
import { type Busy, beginSend, busyWith, inTurn, letGo, orLetGo, refuseIfChanged, type SendKey, type SentContact } from "./sends.ts";
import { settle } from "./settle.ts";

type Notice = (typeof CrmContactChanged)["payload"]["_output"];

interface ChangeCall {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly instanceId: string;
  readonly notice: Notice;
}

/** The result of a CRM notice. */
export interface Change {
  /**
   * `nothing`: the contact and its record have equal values. `left`: the notice is ignored, because its record cannot belong to one of our
   * contacts or no longer has our key. `forgotten`: the contact was forgotten, and is not restored.
   */
  did: "nothing" | "took" | "created" | "merged" | "cut" | "left" | "forgotten";
  contact_id: string | null;
  /** Names of the properties that were copied. */
  properties?: string[];
}

/**
 * Reads a contact's record in the CRM and copies the record's changes to our contact. The values in the notice are ignored, because the
 * record may have changed again. The same write records the copied values as known in the CRM, so that no sync sends the values back.
 * Values that we wrote to the CRM do not count as changes.
 */
export function takeChange(call: ChangeCall): Promise<Commit<Change>> {
  const turn = () =>
    inTurn(async () => {
      const change = await look(call);
      return "busyUntil" in change || change.statements ? change : { ...change, statements: letGo(keyOf(call)) };
    });
  return orLetGo(call.env.DB, keyOf(call), turn);
}

/** The id with which this step reserves contacts while the step sets our key on the contacts' records. */
function keyOf({ envelope, instanceId }: ChangeCall): SendKey {
  return { tenantId: envelope.tenant_id, sendId: instanceId };
}

/** Links are read before the record. If a sync writes a link between the two reads, the commit is refused. */
async function look(call: ChangeCall, named: readonly string[] = [], now = call.notice.crm_id): Promise<Commit<Change> | Busy> {
  const { env, envelope, notice } = call;
  const tenantId = envelope.tenant_id;
  const { linked, account } = await contactsLinkedTo(env, tenantId, [notice.crm_id, now, ...notice.merged]);
  const unlessChanged = (seen: readonly Seen[], change: Commit<Change>) => fenced(keyOf(call), account, seen, change);
  const ids = [...new Set([...linked.values(), ...named])];
  // Another instance may be setting our key on the new record.
  const busy = await busyWith(env.DB, tenantId, [...ids, idOfMade(env, now)], call.instanceId);
  if (busy) return busy;
  const candidates = await candidatesByIds(env.DB, tenantId, ids);
  const upstream = crm(env, tenantId);
  const { found: answered, refused } = await upstream.read([notice.crm_id], { key: call.instanceId, trace: envelope }, propertyNames(env));
  const why = refused.get(notice.crm_id);
  if (why) throw asStopped("The CRM refused to show the contact", why);
  const [read] = answered;
  const found = read && !read.archived ? read : undefined;
  const name = found?.key ? contactOf(tenantId, found.key) : undefined;
  if (name !== undefined && !ids.includes(name)) return look(call, [name], found?.crmId);
  if (found && found.crmId !== now) return look(call, named, found.crmId);
  const own = found && (name ?? idOfMade(env, found.crmId));
  if (own !== undefined && (await forgottenAmong(env, tenantId, [own])).has(own)) return { output: { did: "forgotten", contact_id: null } };
  const owner = linked.get(notice.crm_id) ?? linked.get(now);
  if (found && owner !== undefined && found.key !== contactKey(tenantId, owner))
    return unlessChanged([], isForeign(tenantId, owner, notice.crm_id));
  if (found?.key && name === undefined) return left();
  // Of records merged in the CRM, the first of our contacts remains. All other contacts become aliases of this contact.
  const ours = [...new Set([notice.crm_id, ...notice.merged].flatMap((id) => linked.get(id) ?? []))];
  const survivor = owner ?? name ?? ours[0];
  const lost = notice.merged.length > 0 ? ours.filter((id) => id !== survivor) : [];
  const self = candidates.find(({ contact }) => contact.contact_id === survivor);

  if (!found) return self?.link?.crmId === notice.crm_id ? unlessChanged([self], cutLoose(tenantId, self)) : left();
  const gone = candidates.filter(({ contact }) => lost.includes(contact.contact_id));
  const taken = self ? await takeFrom(call, account, self, found) : await create(call, account, found, name, unlessChanged);
  if (!self || "busyUntil" in taken) return taken;
  if (lost.length === 0) return unlessChanged([self], taken);
  return unlessChanged([self, ...gone], {
    statements: [
      ...(taken.statements ?? []),
      ...closeLinks(
        tenantId,
        "merged",
        // If a push has created a record since then, that record is found by our key and merged too.
        gone.map(({ contact, link }) => ({ contactId: contact.contact_id, revision: contact.revision, maybe: link?.maybe ?? [] })),
      ),
    ],
    emit: [...(taken.emit ?? []), ...gone.map(({ contact }) => mergedFact(notice, contact.contact_id, self.contact.contact_id))],
    output: { did: "merged", contact_id: self.contact.contact_id },
  });
}

/** Fails the commit, so that the step repeats, if one of these contacts was pushed, or the contact's link was written, after the read. */
type Fence = (seen: readonly Seen[], change: Commit<Change>) => Commit<Change>;

/** A contact as it was read, or only an id if no contact with this id existed. */
type Seen = Candidate | string;

function fenced(key: SendKey, account: Account, seen: readonly Seen[], change: Commit<Change>): Commit<Change> {
  const { statements } = change;
  if (!statements) return change;
  const versions = seen.map((one) =>
    typeof one === "string" ? { id: one, version: 0 } : { id: one.contact.contact_id, version: one.link?.version ?? 0 },
  );
  const unlessChanged = [...noteAccount(key.tenantId, account), refuseIfChanged(key, account, versions)];
  return { ...change, statements: [...unlessChanged, ...letGo(key), ...statements] };
}

/**
 * Copies the differences from the last known state of the CRM. If the contact of the record has an alias, the contact's own sync merges
 * their records.
 */
async function takeFrom(call: ChangeCall, account: Account, self: Candidate, found: CrmFound): Promise<Commit<Change> | Busy> {
  const { env, envelope, notice } = call;
  const { contact } = self;
  const tenantId = envelope.tenant_id;
  const { contact_id: id, revision } = contact;
  const key = contactKey(tenantId, id);
  // A CRM record that was merged, or created by a person, does not have our key. Without the key, the next sync would create a second
  // record for the contact.
  if (found.key !== key) {
    // The record keeps our key even if this step fails afterwards. No push writes to the record before the record's link is stored.
    const busy = await claim(call, account, found, { id, version: self.link?.version ?? 0, sent: [{}] });
    if (busy) return busy;
  }
  const link = await linkTo(call, self, found);
  const known = link?.known ?? {};
  const ours = toProperties(env, contact, known);
  const { take, send, seen } = settle(ours, known, found.properties, link?.maybe);
  const properties = Object.keys(take);
  const isTaken = properties.length > 0;
  const isNew = link?.crmId !== found.crmId;
  const isNews = isTaken || Object.keys(seen).length > 0 || isNew;
  if (!isNews) return { output: { did: "nothing", contact_id: id } };
  const readAt = Date.parse(found.updatedAt);
  const agreed = Object.keys(send).length === 0;
  const patch = asPatch(contact, take, { ...ours, ...take });
  const takes = agreed && isTaken && isChange(contact, patch) ? 1 : 0;
  const isAnother = isNew && (await knownAs({ env, tenantId }, [self])).get(id) !== id;
  return {
    statements: [
      ...(self.link?.crmId && !link ? closeLinks(tenantId, "cut", [{ contactId: id, revision }]) : []),
      ...writeLinks(tenantId, [
        { contactId: id, crmId: found.crmId, revision: agreed ? revision : 0, takes, ...newlyKnown(seen, take, patch), readAt },
      ]),
      ...(isTaken ? takeOver(tenantId, [{ contactId: id, readAt, ...patch }]) : []),
    ],
    emit: isAnother ? [ContactSync.from({ contact_id: id, occasion: `merge ${notice.event_id}` })] : [],
    output: isTaken ? { did: "took", contact_id: id, properties } : { did: "nothing", contact_id: id },
  };
}

/**
 * Returns the contact's link for a record. The result is null if the link is for another record which was deleted or does not have the
 * contact's key.
 */
async function linkTo({ env, envelope, instanceId, notice }: ChangeCall, self: Candidate, found: CrmFound): Promise<Link | null> {
  const { link } = self;
  if (!link?.crmId || [found.crmId, notice.crm_id, ...notice.merged].includes(link.crmId)) return link;
  const tenantId = envelope.tenant_id;
  const recordOf = await readRecords({ env, tenantId, key: instanceId, trace: envelope }, crm(env, tenantId), [self]);
  return recordOf(self).state === "found" ? link : null;
}

/**
 * Handles a record that was created in the CRM. The record is linked to our contact with the same address, if that contact has no record
 * yet. Otherwise a new contact is created.
 */
async function create(
  call: ChangeCall,
  account: Account,
  found: CrmFound,
  named: string | undefined,
  unlessChanged: Fence,
): Promise<Commit<Change> | Busy> {
  const { env, envelope, instanceId } = call;
  const tenantId = envelope.tenant_id;
  const email = found.properties.email?.trim() ?? "";
  if (!isTakeable("email", email) || (named !== undefined && !newContactId.safeParse(named).success)) return left();
  const same = await ofSameAddress({ env, tenantId, key: instanceId, trace: envelope }, email);
  if (same) {
    const taken = await takeFrom(call, account, same.ours, found);
    return "busyUntil" in taken ? taken : unlessChanged(same.seen, taken);
  }

  // The record may have our key already, from an earlier attempt.
  const contactId = named ?? (await freeIdFor(env, tenantId, found.crmId));
  if (contactId === undefined) return left();
  const busy = await claim(call, account, found, { id: contactId, sent: [] });
  if (busy) return busy;
  const all: Properties = Object.fromEntries(
    propertyNames(env).flatMap((name) => {
      const value = found.properties[name] ?? "";
      return value !== "" && isTakeable(name, value) ? [[name, value]] : [];
    }),
  );
  const patch = asPatch({ properties: {} }, all, all);
  const readAt = Date.parse(found.updatedAt);
  const pseudonym = pseudonymOf(env, tenantId, contactId);
  const statements: Statement[] = [
    createContact(tenantId, "crm", { contact_id: contactId, email, name: patch.name ?? "", properties: patch.properties, pseudonym }),
    ...writeLinks(tenantId, [{ contactId, crmId: found.crmId, revision: 1, takes: 0, known: { ...all }, readAt }]),
  ];
  return unlessChanged([contactId], { statements, output: { did: "created", contact_id: contactId } });
}

/**
 * When a contact's CRM record is deleted, our contact remains, and bulk syncs do not recreate the record. A record of another contact is
 * not affected.
 */
function cutLoose(tenantId: string, { contact: { contact_id: contactId, revision }, link }: Candidate): Commit<Change> {
  return {
    statements: closeLinks(tenantId, "cut", [{ contactId, revision, maybe: link?.maybe ?? [] }]),
    output: { did: "cut", contact_id: contactId },
  };
}

/**
 * Sets a contact's key on a record, unless the record has the key already. A concurrent read of the same record waits from then on. If an
 * earlier concurrent read has given the record to another contact, this step starts again with current data.
 */
async function claim(call: ChangeCall, account: Account, { crmId, key }: CrmFound, contact: SentContact): Promise<Busy | undefined> {
  const { env, envelope } = call;
  const tenantId = envelope.tenant_id;
  const busy = await beginSend(env.DB, keyOf(call), account, [contact, { id: idOfMade(env, crmId), sent: [] }]);
  if (busy) return busy;
  const { linked } = await contactsLinkedTo(env, tenantId, [crmId]);
  if ((linked.get(crmId) ?? contact.id) !== contact.id) return { busyUntil: 0 };
  const name = contactKey(tenantId, contact.id);
  if (key !== name) await nameRecord(call, crmId, name);
  return undefined;
}

/** Sets our key on a record. Errors: those of `asStopped` if the CRM refuses the key. */
async function nameRecord(call: ChangeCall, crmId: string, key: string): Promise<void> {
  const { env, envelope, instanceId } = call;
  const refused = await crm(env, envelope.tenant_id).name([{ crmId, key }], { key: instanceId, trace: envelope });
  const why = refused.get(crmId);
  if (!why) return;
  await atomically(env.DB, letGo(keyOf(call)));
  throw asStopped(`The CRM refused to give the record ${crmId} the name ${key}`, why);
}

/** Returns the commit for a linked record without the contact's key. The commit copies no values, and records the reason in the link. */
function isForeign(tenantId: string, contactId: string, crmId: string): Commit<Change> {
  const why = asError({ contactId, ...foreign(crmId, contactKey(tenantId, contactId)) });
  return { statements: noteRefusals(tenantId, [{ contactId, ...why }]), output: { did: "left", contact_id: contactId } };
}

function mergedFact({ event_id, occurred_at }: Notice, from: string, into: string) {
  return FactObserved.from({
    fact_id: mergeName(event_id, from),
    entity: "contacts",
    type: "contact_merged",
    occurred_at,
    payload: { from, into },
  });
}

/**
 * Returns the name of a merge. A long name is replaced by a digest, because one notice may merge several contacts whose long ids begin
 * alike.
 */
function mergeName(eventId: string, from: string): string {
  const name = `crm-merge ${eventId} ${from}`;
  return texts.characterCount(name) <= 200 ? name : `crm-merge ${eventId} ${ids.digest(from)}`;
}

function left(): Commit<Change> {
  return { output: { did: "left", contact_id: null } };
}
