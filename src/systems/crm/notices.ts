import { digest, type Issue, issuesIn, query, sql } from "millrace";
import * as z from "zod";
import { CrmContactChanged } from "../../messages/crm.ts";
import { contactsLinkedTo } from "./links.ts";
import { isSame, propertyNames } from "./properties.ts";

const id = z.union([z.int().min(0), z.string().regex(/^\d{1,20}$/)]).transform(String);

/** What is not said, or said as null. */
const said = <Schema extends z.ZodType>(schema: Schema) => schema.nullish().transform((value) => value ?? undefined);

/** What HubSpot says of one event, as far as it matters here. */
const eventSchema = z.object({
  eventId: id,
  portalId: id,
  occurredAt: z.int().min(0).max(8.64e15),
  subscriptionType: z.string().max(100),
  /** The kind of record in generic subscriptions (`object.…`): 0-1 is a contact. */
  objectTypeId: said(z.string().max(20)),
  objectId: said(id),
  appId: said(id),
  sourceId: said(z.string().max(200)),
  changeSource: said(z.string().max(100)),
  propertyName: said(z.string().max(200)),
  propertyValue: z.string().nullish(),
  primaryObjectId: said(id),
  mergedObjectIds: said(z.array(id).max(100)),
  newObjectId: said(id),
});

/** HubSpot sends at most so many events at once. */
const MAX_EVENTS = 100;

/** One delivery, whose events are read one by one. */
export const deliverySchema = z.array(z.unknown()).max(MAX_EVENTS);

/** The same for the document. */
export const deliveryShape = z.array(z.union([eventSchema, z.unknown().describe("Anything else is counted as `unread`.")])).max(MAX_EVENTS);

type ContactEvent = z.infer<typeof eventSchema>;

/** The events of a delivery that can be read, and what is wrong with each other one: one that cannot costs no other. */
export function eventsIn(delivery: readonly unknown[]): { events: ContactEvent[]; unread: Issue[][] } {
  const read = delivery.map((event, index) => ({ event, index, parsed: eventSchema.safeParse(event) }));
  return {
    events: read.flatMap(({ parsed }) => parsed.data ?? []),
    unread: read.flatMap(({ event, index, parsed: { error } }) => (error ? [issuesIn(eventSchema, event, error, [String(index)])] : [])),
  };
}

/** Contacts whose records somebody deleted in the CRM for their privacy: they are forgotten here too. `event` names the notice. */
export async function forgottenBy(
  env: Cloudflare.Env,
  tenantId: string,
  events: readonly ContactEvent[],
): Promise<{ contactId: string; event: string }[]> {
  const erased = events.filter(isAboutContact).filter(isPrivacyDeletion);
  if (erased.length === 0) return [];
  const { linked } = await contactsLinkedTo(
    env,
    tenantId,
    erased.flatMap(({ objectId }) => objectId ?? []),
  );
  return erased.flatMap((event) => {
    const contactId = linked.get(event.objectId ?? "");
    return contactId === undefined ? [] : [{ contactId, event: nameOf(event) }];
  });
}

/**
 * The commands that a delivery asks for: one per contact, named by the newest event about it, because the state that is read then is no
 * older than that; and one per merge. What the CRM is known to have already, and what this app did itself, is no news: so a sync of ten
 * thousand contacts does not come back as ten thousand commands. Whatever is in doubt becomes one, and is looked at.
 */
export async function commandsFrom(env: Cloudflare.Env, tenantId: string, events: readonly ContactEvent[]) {
  const news = await newsAmong(
    env,
    tenantId,
    events.filter(isAboutContact).filter((event) => !isOurs(event) && !isPrivacyDeletion(event)),
  );
  const merges = news.filter(isMerge).map(noticeOfMerge);
  const changes = Map.groupBy(
    news.filter((event) => !isMerge(event)),
    ({ objectId }) => objectId,
  );
  const newest = [...changes].flatMap(([crmId, same]) => {
    const [event] = same.toSorted((one, other) => other.occurredAt - one.occurredAt || (nameOf(one) < nameOf(other) ? 1 : -1));
    return crmId && event ? [{ crm_id: crmId, ...stampOf(event) }] : [];
  });
  return [...newest, ...merges].map((payload) => ({ command: CrmContactChanged, payload }));
}

function isAboutContact({ subscriptionType, objectTypeId, objectId, primaryObjectId }: ContactEvent): boolean {
  const [noun] = subscriptionType.split(".");
  return (noun === "contact" || (noun === "object" && objectTypeId === "0-1")) && Boolean(objectId ?? primaryObjectId);
}

function isPrivacyDeletion({ subscriptionType }: ContactEvent): boolean {
  return subscriptionType.endsWith(".privacyDeletion");
}

function isMerge({ subscriptionType }: ContactEvent): boolean {
  return subscriptionType.endsWith(".merge");
}

/** An app is told of its own changes too. Whoever signed this says so; what others do in between has an event of its own. */
function isOurs({ changeSource, sourceId, appId }: ContactEvent): boolean {
  return changeSource === "INTEGRATION" && appId !== undefined && sourceId === appId;
}

/** The records of a merge: what it became, and what it was made of, the one that was kept first. */
function noticeOfMerge(event: ContactEvent) {
  const { primaryObjectId, mergedObjectIds = [], newObjectId, objectId } = event;
  const crmId = newObjectId ?? primaryObjectId ?? objectId ?? "";
  const merged = [primaryObjectId ?? crmId, ...mergedObjectIds].filter((one) => one !== crmId);
  return { crm_id: crmId, ...stampOf(event), merged };
}

/** HubSpot does not promise that an event's id is unique: with its time and its subject it is. */
function nameOf({ portalId, eventId, occurredAt, subscriptionType, objectId = "", propertyName = "" }: ContactEvent): string {
  return `${portalId}-${eventId}-${digest(String(occurredAt), subscriptionType, objectId, propertyName)}`;
}

function stampOf(event: ContactEvent) {
  return { event_id: nameOf(event), occurred_at: new Date(event.occurredAt).toISOString() };
}

/** The CRM's clock may be behind ours by so much. */
const CLOCKS_DIFFER_MS = 5000;

/** Events that say something we do not know. One look for all of them, and none where there is nothing but our own doings. */
async function newsAmong(env: Cloudflare.Env, tenantId: string, events: readonly ContactEvent[]): Promise<ContactEvent[]> {
  if (events.length === 0) return [];
  const crmIds = [...new Set(events.flatMap(({ objectId }) => objectId ?? []))];
  const found = await query<{ crmId: string; known: string; updatedAt: number; sending: number }>(
    env.DB,
    sql`
      SELECT l.crm_id AS crmId, l.known, l.updated_at AS updatedAt,
        EXISTS (SELECT 1 FROM crm_sends s, json_each(s.contacts) c
          WHERE s.tenant_id = ${tenantId} AND c.value->>'id' = l.contact_id) AS sending
      FROM json_each(${JSON.stringify(crmIds)}) k
      CROSS JOIN crm_links l ON l.tenant_id = ${tenantId} AND l.crm_id = k.value`,
  );
  const links = new Map(found.map((link) => [link.crmId, { ...link, known: JSON.parse(link.known) as Record<string, string> }]));
  const names = new Set(propertyNames(env));
  return events.filter(({ subscriptionType, objectId = "", propertyName = "", propertyValue, occurredAt }) => {
    const link = links.get(objectId);
    if (subscriptionType.endsWith(".creation")) return link === undefined;
    if (!subscriptionType.endsWith(".propertyChange")) return !subscriptionType.endsWith(".associationChange");
    if (!names.has(propertyName)) return false;
    if (link === undefined || propertyValue === undefined) return true;
    // What is known since before the event, or is being rewritten, says nothing of it: a person may have put back what it says.
    if (link.sending || occurredAt + CLOCKS_DIFFER_MS >= link.updatedAt) return true;
    return !isSame(propertyName, link.known[propertyName] ?? "", propertyValue ?? "");
  });
}
