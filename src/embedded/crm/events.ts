export type ChangeSource = "INTEGRATION" | "CRM_UI";

const APP_ID = 1_160_452;
const SUBSCRIPTIONS = {
  "contact.creation": 1,
  "contact.propertyChange": 2,
  "contact.merge": 3,
  "contact.deletion": 4,
  "contact.privacyDeletion": 5,
};

/**
 * HubSpot's event about a change, without the fields that differ in each delivery. The delivery adds the fields `eventId` and
 * `attemptNumber`.
 */
export interface ContactEvent {
  subscriptionType: keyof typeof SUBSCRIPTIONS;
  objectId: number;
  propertyName?: string;
  propertyValue?: string;
  primaryObjectId?: number;
  mergedObjectIds?: number[];
  newObjectId?: number;
}

/**
 * Stores events about changes. The alarm of the Durable Object delivers the events. Changes by this app are included, because HubSpot also
 * sends events about an app's own changes.
 */
export function announce(sql: SqlStorage, portalId: number, source: ChangeSource, events: readonly ContactEvent[]): void {
  const occurredAt = Date.now();
  const changeSource = { changeSource: source, sourceId: source === "INTEGRATION" ? String(APP_ID) : "userId:1" };
  for (const event of events) {
    const subscriptionId = SUBSCRIPTIONS[event.subscriptionType];
    const body = { subscriptionId, portalId, appId: APP_ID, occurredAt, ...event, ...changeSource };
    sql.exec("INSERT INTO events (body, due_at) VALUES (?, ?)", JSON.stringify(body), occurredAt);
  }
}
