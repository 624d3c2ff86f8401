import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { createApi } from "../../../src/api/app.ts";
import { app } from "../../../src/catalog.ts";
import { crmStoreOf } from "../../../src/embedded/env.ts";
import { crmWebhookSecret, hubspotSignature, SIGNATURE_HEADER, TIMESTAMP_HEADER } from "../../../src/providers/hubspot-signature.ts";
import { type Answer, type Caller, fresh, type Json, send, until } from "../../api/client.ts";
import { completed } from "../batches/batch.ts";

/** The embedded CRM, as a user of its pages sees it. */
export const theCrm = () => crmStoreOf(env);

/** A contact in the form of a test's file. */
export interface Row {
  contact_id: string;
  email: string;
  name?: string;
  properties?: Record<string, unknown>;
}

/** Imports contacts, as a batch does. */
export async function bring(caller: Caller, rows: readonly Row[]): Promise<void> {
  const file = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  const batch = await completed(caller, file, { type: "application/x-ndjson" });
  expect(batch.rows).toMatchObject({ done: rows.length, failed: 0 });
}

/** Contacts with unique addresses. */
export function people(caller: Caller, count: number, from = 0): Row[] {
  return Array.from({ length: count }, (_, index) => {
    const id = `c${String(from + index).padStart(4, "0")}`;
    return { contact_id: id, email: `${id}@${caller.tenantId}.example.com`, name: `Person ${id}` };
  });
}

export async function command(caller: Caller, type: string, payload: object): Promise<string> {
  const { status, body } = await caller.post("/v1/commands", { type, payload });
  expect(status, JSON.stringify(body)).toBe(202);
  return body.instance_id;
}

/** Syncs contacts and waits until the sync is over. */
export async function synced(caller: Caller, scope: "changed" | "all" = "changed", id = fresh("s")): Promise<Json> {
  await command(caller, "contacts.sync", { sync_id: id, scope });
  return syncIn(caller, id, "complete");
}

export async function syncIn(caller: Caller, id: string, ...states: string[]): Promise<Json> {
  const { body } = await until(
    () => caller.get(`/v1/crm/syncs/${id}`),
    ({ body }) => states.includes(body.state) || body.state === "errored",
  );
  expect(states, JSON.stringify(body)).toContain(body.state);
  return body;
}

/** Waits for an instance, and returns the output of its last step, or its error. */
export async function ended(caller: Caller, instanceId: string, status = "complete"): Promise<Json> {
  const { body } = await until(
    () => caller.get(`/v1/instances/${instanceId}`),
    ({ body }) => body.status === status || body.status === "errored",
  );
  expect(body.status, JSON.stringify(body)).toBe(status);
  if (status === "errored") return body.error;
  const row = await env.DB.prepare("SELECT output FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position DESC")
    .bind(instanceId)
    .first<{ output: string }>();
  return JSON.parse(row?.output ?? "null");
}

/** The tenant's existing records in the CRM, by contact. */
export async function recordsOf(caller: Caller): Promise<Map<string, Json>> {
  const prefix = `${caller.tenantId}/`;
  const records = (await theCrm().list("contacts")).filter(({ key, archived }) => key?.startsWith(prefix) && !archived);
  return new Map(records.map((record) => [String(record.key).slice(prefix.length), record]));
}

export async function linkOf(caller: Caller, contactId: string): Promise<Json> {
  const { body } = await caller.get(`/v1/crm/links?contact_id=${contactId}`);
  return body.items[0];
}

export async function contactOf(caller: Caller, contactId: string): Promise<Json> {
  const { body } = await caller.get("/v1/contacts?limit=1000");
  return body.items.find(({ contact_id }: Json) => contact_id === contactId);
}

/** The CRM's requests since a moment, counted by kind. */
export async function callsSince(id: number): Promise<string[]> {
  const { calls } = await theCrm().callReport();
  return calls.filter((call) => call.id > id).map(({ path, inputs }) => `${path.split("/").slice(-2).join("/")} ${inputs}`);
}

export async function lastCall(): Promise<number> {
  return (await theCrm().callReport()).calls.at(-1)?.id ?? 0;
}

let events = 0;

/** An event in HubSpot's format, about a user's change. */
export function event(objectId: string, more: object = {}): Json {
  return {
    eventId: ++events,
    subscriptionId: 2,
    portalId: 4224001,
    appId: 1160452,
    occurredAt: Date.now(),
    subscriptionType: "contact.propertyChange",
    attemptNumber: 0,
    objectId: Number(objectId),
    propertyName: "phone",
    propertyValue: "unheard of",
    changeSource: "CRM_UI",
    sourceId: "userId:1",
    ...more,
  };
}

/** Delivers events as HubSpot does; with `vars`, to a deployment that sets these variables. */
export function notify(
  tenantId: string,
  body: unknown,
  { at = Date.now(), secret = crmWebhookSecret(env), vars = {}, headers: more = {} } = {},
): Promise<Answer> {
  const path = `/crm/hubspot/webhooks/${tenantId}`;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const signature = hubspotSignature(secret, "POST", `http://localhost${path}`, text, String(at));
  const headers = { "content-type": "application/json", [SIGNATURE_HEADER]: signature, [TIMESTAMP_HEADER]: String(at), ...more };
  return send(path, { method: "POST", headers, body: text }, (request) => createApi(app).fetch(request, { ...env, ...vars }));
}

/** The instances of one tenant that process the CRM's webhooks. */
export async function looks(caller: Caller): Promise<Json[]> {
  const { results } = await env.DB.prepare(
    "SELECT id, status FROM millrace_instances WHERE tenant_id = ?1 AND workflow = 'take-crm-change' ORDER BY rowid",
  )
    .bind(caller.tenantId)
    .all<Json>();
  return results;
}

/** Waits until no read is open. Returns the outcome of each. */
export async function looked(caller: Caller, count: number): Promise<Json[]> {
  const seen = await until(
    () => looks(caller),
    (all) => all.length >= count && all.every(({ status }) => status === "complete" || status === "errored"),
  );
  expect(seen).toHaveLength(count);
  return Promise.all(seen.map(({ id }) => ended(caller, id)));
}

/** Records that one contact is another from now on, and waits until that is stored. `canonical` is the canonical contact of both then. */
export async function merge(caller: Caller, from: string, into: string, canonical = into): Promise<void> {
  const fact = {
    fact_id: fresh("m"),
    entity: "contacts",
    type: "contact_merged",
    occurred_at: new Date().toISOString(),
    payload: { from, into },
  };
  expect((await caller.post("/v1/facts", { facts: [fact] })).status).toBe(200);
  await known(caller, from, canonical);
}

/** Waits until one contact is recorded as another. */
export async function known(caller: Caller, from: string, into: string): Promise<void> {
  const { body } = await until(
    () => caller.get(`/v1/contacts/${from}`),
    ({ body }) => body.canonical_id === into,
  );
  expect(body.canonical_id).toBe(into);
}
