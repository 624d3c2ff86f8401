import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { crmStoreOf } from "../../src/embedded/env.ts";
import { crmWebhookSecret } from "../../src/providers/hubspot-signature.ts";
import { crm } from "../../src/providers/index.ts";
import { fresh, type Json, until } from "../api/client.ts";
import { conforms } from "../contracts/check.ts";
import contract from "../contracts/hubspot.json";
import { hookUrl, received, tell } from "../systems/webhooks/hook.ts";
import type { Received } from "../systems/webhooks/receiver.ts";
import { crmEdit, crmTells, crmView } from "./embedded.ts";
import { isSignedByHubspot } from "./hubspot-signed.ts";

let hook = "";

beforeEach(async () => {
  hook = fresh("crm");
  await crmTells(hookUrl(hook));
});

/** The received events about one contact, once there are this many. */
async function eventsOf(objectId: string, count: number): Promise<Json[]> {
  const look = async () => (await received(hook)).flatMap(({ body }) => JSON.parse(body) as Json[]);
  const all = await until(look, (found) => found.filter((event) => String(event.objectId) === objectId).length >= count);
  return all.filter((event) => String(event.objectId) === objectId);
}

function isSigned({ headers, body }: Received): Promise<boolean> {
  return isSignedByHubspot(new Request(hookUrl(hook), { method: "POST", headers }), body, crmWebhookSecret(env));
}

describe("The embedded CRM's messages about changes", () => {
  it("the embedded CRM's webhooks report a user's edits, signed, in HubSpot's format", async () => {
    const { body: made } = await crmEdit(null, { email: `${hook}@example.com` });
    await crmEdit(made.id, { phone: "42" });
    await crmEdit(made.id, { phone: "42" });
    await crmEdit(made.id, null);
    const events = await eventsOf(made.id, 4);
    expect(events).toMatchObject([
      { subscriptionType: "contact.creation", changeSource: "CRM_UI", attemptNumber: 0 },
      { subscriptionType: "contact.propertyChange", propertyName: "email", propertyValue: `${hook}@example.com` },
      { subscriptionType: "contact.propertyChange", propertyName: "phone", propertyValue: "42", sourceId: "userId:1" },
      { subscriptionType: "contact.deletion" },
    ]);
    for (const message of await received(hook)) {
      expect(await isSigned(message)).toBe(true);
      expect(await isSigned({ ...message, body: message.body.replace("CRM_UI", "IMPORT") })).toBe(false);
      expect(conforms(contract, "WebhookEvents", JSON.parse(message.body))).toEqual([]);
    }
  });

  it("the embedded CRM's webhooks report the engine's changes as well, and merges, as HubSpot does", async () => {
    const records = [1, 2].map((each) => ({ key: `${hook}-${each}`, properties: { email: `${hook}-${each}@example.com` } }));
    const done = await crm(env, "acme").upsert("contacts", records, { key: "k" });
    const [one = "", two = ""] = done.map((outcome) => (outcome.state === "done" ? outcome.crmId : ""));
    const made = await crm(env, "acme").merge(one, two, { key: "k" });
    const merged = made.state === "done" ? made.crmId : "";
    expect((await eventsOf(one, 3)).map(({ changeSource }) => changeSource)).toEqual(["INTEGRATION", "INTEGRATION", "INTEGRATION"]);
    const [merge] = await eventsOf(merged, 1);
    expect(merge).toMatchObject({ subscriptionType: "contact.merge", primaryObjectId: Number(one), mergedObjectIds: [Number(two)] });
    expect(conforms(contract, "WebhookEvents", [merge])).toEqual([]);
  });

  it("the embedded CRM's webhooks are repeated until they are answered with 2xx, also when the CRM dies in between", async () => {
    await tell(hook, { treatments: [{ status: 500, times: 1 }] });
    const { body: made } = await crmEdit(null, { email: `${hook}@example.com` });
    const [refused] = await received(hook, 1);
    await evictDurableObject(crmStoreOf(env));
    expect(await eventsOf(made.id, 2)).not.toEqual([]);
    const { deliveries, waiting } = await until(
      () => crmView("deliveries"),
      ({ waiting: left }) => left === 0,
    );
    expect(waiting).toBe(0);
    // The refused message may be about another test's change: the CRM reports all of them.
    const all = (await received(hook, 2)).flatMap(({ body }) => JSON.parse(body) as Json[]);
    for (const { eventId } of JSON.parse(refused?.body ?? "") as Json[]) {
      expect(all.filter((event) => event.eventId === eventId).map(({ attemptNumber }) => attemptNumber)).toEqual([0, 1]);
    }
    const statuses: number[] = deliveries.filter(({ url }: Json) => url === hookUrl(hook)).map(({ status }: Json) => status);
    expect(statuses[0]).toBe(500);
    expect(new Set(statuses.slice(1))).toEqual(new Set([204]));
  });

  it("the embedded CRM's webhooks have at most 100 events each", async () => {
    const records = Array.from({ length: 60 }, (_, each) => ({
      key: `${hook}-${each}`,
      properties: { email: `${hook}-${each}@example.com` },
    }));
    const done = await crm(env, "acme").upsert("contacts", records, { key: "k" });
    const own = new Set(done.map((outcome) => (outcome.state === "done" ? outcome.crmId : "")));
    const messages = (await received(hook, 2)).map(({ body }) => JSON.parse(body) as Json[]);
    // Another test's change may be in one of them.
    expect(messages.map(({ length }) => length)).toEqual([100, expect.any(Number)]);
    expect(messages.flat().filter(({ objectId }) => own.has(String(objectId)))).toHaveLength(180);
  });

  it("the embedded CRM's webhooks are sent to this Worker by default", async () => {
    await crmTells(null);
    await crmEdit(null, { email: `${hook}@example.com` });
    const own = "http://localhost:8787/crm/hubspot/webhooks/acme";
    const look = async () => (await crmView("deliveries")).deliveries.filter(({ url }: Json) => url === own);
    const [first] = await until(look, (found) => found.length > 0);
    expect(first).toMatchObject({ url: own, status: expect.any(Number) });
  });
});
