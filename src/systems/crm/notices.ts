import { errors, type Issue, ids, query, sql } from "millrace";
import * as z from "zod";
import { CrmContactChanged } from "../../messages/crm.ts";
import { contactsLinkedTo } from "./links.ts";
import { isSame, propertyNames } from "./properties.ts";

const id = z.union([z.int().min(0), z.string().regex(/^\d{1,20}$/)]).transform(String);

const said = <Schema extends z.ZodType>(schema: Schema) => schema.nullish().transform((value) => value ?? undefined);

/** The relevant fields of a HubSpot event. */
const eventSchema = z.object({
  eventId: id,
  portalId: id,
  occurredAt: z.int().min(0).max(8.64e15),
  subscriptionType: z.string().max(100),
  /** The kind of record in generic subscriptions (`object.…`): the value `0-1` means a contact. */
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

/** Maximum number of events in one HubSpot delivery. */
const MAX_EVENTS = 100;

/** One delivery of CRM events. This schema does not validate the events, because each event is validated separately. */
export const deliverySchema = z.array(z.unknown()).max(MAX_EVENTS);

/** The schema of a delivery for the OpenAPI document. */
export const deliveryShape = z.array(z.union([eventSchema, z.unknown().describe("Anything else is counted as `unread`.")])).max(MAX_EVENTS);

type ContactEvent = z.infer<typeof eventSchema>;

/** Returns the valid events of a delivery, and the errors of the invalid events. An invalid event does not affect the rest. */
export function eventsIn(delivery: readonly unknown[]): { events: ContactEvent[]; unread: Issue[][] } {
  const read = delivery.map((event, index) => ({ event, index, parsed: eventSchema.safeParse(event) }));
  return {
    events: read.flatMap(({ parsed }) => parsed.data ?? []),
    unread: read.flatMap(({ event, index, parsed: { error } }) =>
      error ? [errors.issuesIn(eventSchema, event, error, [String(index)])] : [],
    ),
  };
}

/**
 * Returns the contacts whose records were deleted in the CRM for privacy. These contacts are forgotten in our database too. `event`
 * identifies the notice.
 */
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
 * Returns the commands for a delivery: one for each contact and one for each merge. A contact's command is named after the contact's newest
 * event, because the record is read after that event. This app's own changes, and values that are already known from the CRM, are ignored.
 * Therefore a sync of ten thousand contacts does not cause ten thousand commands. An event that may be a new change becomes a command.
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

/**
 * True for an event of a change that this app made. The CRM also sends an app the app's own changes, marked by the app's id. Changes by
 * other programs have their own events.
 */
function isOurs({ changeSource, sourceId, appId }: ContactEvent): boolean {
  return changeSource === "INTEGRATION" && appId !== undefined && sourceId === appId;
}

/** Returns the ids of the resulting record and of the records that were merged. The merged record that the CRM kept is first. */
function noticeOfMerge(event: ContactEvent) {
  const { primaryObjectId, mergedObjectIds = [], newObjectId, objectId } = event;
  const crmId = newObjectId ?? primaryObjectId ?? objectId ?? "";
  const merged = [primaryObjectId ?? crmId, ...mergedObjectIds].filter((one) => one !== crmId);
  return { crm_id: crmId, ...stampOf(event), merged };
}

/**
 * Returns a unique name for an event. HubSpot does not guarantee unique event ids, so the name also contains the time and the subject of
 * the event.
 */
function nameOf({ portalId, eventId, occurredAt, subscriptionType, objectId = "", propertyName = "" }: ContactEvent): string {
  return `${portalId}-${eventId}-${ids.digest(String(occurredAt), subscriptionType, objectId, propertyName)}`;
}

function stampOf(event: ContactEvent) {
  return { event_id: nameOf(event), occurred_at: new Date(event.occurredAt).toISOString() };
}

/** Maximum time by which the CRM's clock may be behind the clock of our database. */
const CLOCKS_DIFFER_MS = 5000;

/**
 * Returns the events whose changes are not yet known. The function queries the database once for all events, or not at all if this app made
 * all changes.
 */
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
    // An event is not ignored if its value was known before the event or is being rewritten, because a person may have restored the value.
    if (link.sending || occurredAt + CLOCKS_DIFFER_MS >= link.updatedAt) return true;
    return !isSame(propertyName, link.known[propertyName] ?? "", propertyValue ?? "");
  });
}
