import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { crmWebhookSecret, SIGNATURE_HEADER, TIMESTAMP_HEADER } from "../../../src/providers/hubspot-signature.ts";
import { callerWith, expectProblem, type Json, send } from "../../api/client.ts";
import { crmTells } from "../../providers/embedded.ts";
import { bring, contactOf, event, linkOf, looked, looks, notify, people, recordsOf, synced, syncIn, theCrm } from "./crm.ts";

it("a webhook of the CRM is accepted only with the CRM's signature for this URL within five minutes", async () => {
  const caller = await callerWith();
  const events = [event("1")];
  const path = `/crm/hubspot/webhooks/${caller.tenantId}`;
  expectProblem(await notify(caller.tenantId, events, { secret: "guessed" }), 401, "signature_invalid");
  expectProblem(await notify(caller.tenantId, events, { at: Date.now() - 6 * 60_000 }), 401, "signature_invalid");
  expectProblem(await notify(caller.tenantId, events, { at: Date.now() + 6 * 60_000 }), 401, "signature_invalid");
  const unsigned = await send(path, { method: "POST", body: JSON.stringify(events) });
  expectProblem(unsigned, 401, "signature_invalid");
  expect(unsigned.headers.get("www-authenticate")).toBe('Webhook-Signature realm="hubspot"');
  expect(await looks(caller)).toEqual([]);
  expectProblem(await notify(caller.tenantId, "not JSON"), 400, "invalid_json");
  expectProblem(await notify(caller.tenantId, [{ eventId: "x" }]), 422, "invalid_payload");
  expect(await looks(caller)).toEqual([]);
  expect((await notify(caller.tenantId, events)).body).toEqual({ accepted: 1, known: 0, foreign: 0, unread: 0 });
});

it("the body of a CRM webhook is not read without a plausible signature and time, nor beyond 1 MB", async () => {
  const { tenantId } = await callerWith();
  const path = `/crm/hubspot/webhooks/${tenantId}`;
  const large = `[${" ".repeat(5_000_000)}]`;
  const signature = "A".repeat(43);
  for (const [headers, status, code] of [
    [{}, 401, "signature_invalid"],
    [{ [SIGNATURE_HEADER]: `${signature}=` }, 401, "signature_invalid"],
    [{ [SIGNATURE_HEADER]: signature, [TIMESTAMP_HEADER]: String(Date.now()) }, 401, "signature_invalid"],
    [{ [SIGNATURE_HEADER]: `${signature}=`, [TIMESTAMP_HEADER]: String(Date.now() - 301_000) }, 401, "signature_invalid"],
    [{ [SIGNATURE_HEADER]: `${signature}=`, [TIMESTAMP_HEADER]: String(Date.now()) }, 413, "payload_too_large"],
  ] as const) {
    expectProblem(
      await send(path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: large }),
      status,
      code,
    );
  }
  expectProblem(await notify(tenantId, `[${" ".repeat(1024 * 1024)}]`), 413, "payload_too_large");
  expect((await notify(tenantId, `[${" ".repeat(1024 * 1024 - 2)}]`)).status).toBe(200);
  const unset = { CRM_URL: "https://crm.example", CRM_WEBHOOK_SECRET: "" };
  expectProblem(await notify(tenantId, large, { vars: unset }), 500, "config_invalid");
});

it("refused CRM webhooks are counted by their IP address, which then waits before its next body is read", async () => {
  const { tenantId } = await callerWith();
  const from = { "cf-connecting-ip": "203.0.113.77" };
  const unsigned = () => send(`/crm/hubspot/webhooks/${tenantId}`, { method: "POST", headers: from, body: "[]" });
  const statuses = new Set<number>();
  for (let sent = 0; sent < 600 && !statuses.has(429); sent += 20) {
    for (const { status } of await Promise.all(Array.from({ length: 20 }, unsigned))) statuses.add(status);
  }
  expect([...statuses].toSorted()).toEqual([401, 429]);
  expectProblem(await notify(tenantId, [], { headers: from }), 429, "rate_limited");
  expect((await notify(tenantId, [], { headers: { "cf-connecting-ip": "203.0.113.78" } })).status).toBe(200);
});

it("an unreadable event of a CRM webhook is counted, and loses no other event of its delivery; null is an empty value", async () => {
  const caller = await callerWith();
  const broken = [event("1", { occurredAt: "yesterday" }), event("2", { propertyName: "x".repeat(201) }), null];
  const nulls = { sourceId: null, changeSource: null, appId: null, objectTypeId: null, newObjectId: null, mergedObjectIds: null };
  const { status, body } = await notify(caller.tenantId, [...broken, event("9999999991", nulls), event("9999999992")]);
  expect([status, body]).toEqual([200, { accepted: 2, known: 0, foreign: 0, unread: 3 }]);
  expect(await looked(caller, 2)).toMatchObject([{ did: "left" }, { did: "left" }]);
  expectProblem(await notify(caller.tenantId, broken), 422, "invalid_payload");
});

it("a CRM webhook of another account, or for a tenant without contacts in its account, is not accepted", async () => {
  const caller = await callerWith();
  const elsewhere = event("1", { portalId: 62515 });
  expect((await notify(caller.tenantId, [elsewhere])).body).toEqual({ accepted: 0, known: 0, foreign: 1, unread: 0 });
  expect((await notify(caller.tenantId, [elsewhere, event("2")])).body).toEqual({ accepted: 1, known: 0, foreign: 1, unread: 0 });
  const vars = { CRM_TENANTS: "bravo, acme", CRM_ACCOUNT: "62515" };
  const { detail } = expectProblem(await notify(caller.tenantId, [elsewhere], { vars }), 500, "config_invalid");
  expect(detail).toContain("CRM_TENANTS");
  const named = await notify(caller.tenantId, [elsewhere], { vars: { ...vars, CRM_TENANTS: caller.tenantId } });
  expect(named.body).toEqual({ accepted: 1, known: 0, foreign: 0, unread: 0 });
  const real = {
    ...vars,
    CRM_TENANTS: caller.tenantId,
    CRM_ACCOUNT: "",
    CRM_URL: "https://crm.example",
    CRM_WEBHOOK_SECRET: crmWebhookSecret(env),
  };
  expect(expectProblem(await notify(caller.tenantId, [elsewhere], { vars: real }), 500, "config_invalid").detail).toContain("CRM_ACCOUNT");
});

it("several events of a CRM webhook about one contact are one command, and a redelivery is none", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 2));
  await synced(caller);
  const [one, two] = [...(await recordsOf(caller)).values()].map(({ id }) => id);
  const first = event(one, { occurredAt: 1_790_000_000_000 });
  const second = event(one, { occurredAt: 1_790_000_000_500, propertyName: "city" });
  const other = event(two);
  expect((await notify(caller.tenantId, [second, first, other])).body).toEqual({ accepted: 2, known: 0, foreign: 0, unread: 0 });
  expect((await notify(caller.tenantId, [first, other, second])).body).toEqual({ accepted: 0, known: 2, foreign: 0, unread: 0 });
  // A newer event causes another read, whatever other events are with it.
  const third = event(one, { occurredAt: 1_790_000_001_000 });
  expect((await notify(caller.tenantId, [second, first, third])).body).toEqual({ accepted: 1, known: 0, foreign: 0, unread: 0 });
  const foreign = [
    event(one, { subscriptionType: "company.propertyChange" }),
    event(one, { propertyName: "hs_analytics_source" }),
    event(one, { subscriptionType: "object.propertyChange", objectTypeId: "0-2" }),
  ];
  expect((await notify(caller.tenantId, foreign)).body).toEqual({ accepted: 0, known: 0, foreign: 0, unread: 0 });
  expect(await looked(caller, 3)).toMatchObject([{ did: "nothing" }, { did: "nothing" }, { did: "nothing" }]);
});

it("the embedded CRM sends signed webhooks of users' changes and of the engine's own changes, which cause no echo", async () => {
  const caller = await callerWith();
  await crmTells(`http://localhost:8787/crm/hubspot/webhooks/${caller.tenantId}`);
  await bring(caller, people(caller, 5));
  await synced(caller);
  const id = (await recordsOf(caller)).get("c0002")?.id ?? "";
  await theCrm().edit(id, { city: "Lima" });
  expect(await looked(caller, 1)).toMatchObject([{ did: "took", contact_id: "c0002", properties: ["city"] }]);
  expect((await synced(caller)).contacts).toMatchObject({ done: 0 });
  const { deliveries } = await theCrm().deliveryReport();
  const own = deliveries.filter(({ url }) => url.endsWith(caller.tenantId));
  expect(own.length).toBeGreaterThan(0);
  expect(new Set(own.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await looks(caller)).toHaveLength(1);
});

it("the records, links, syncs, failures and webhooks of tenants are separate", async () => {
  const [owner, stranger] = [await callerWith(), await callerWith()];
  await bring(owner, people(owner, 2));
  await bring(stranger, people(stranger, 1));
  const { sync_id: id } = await synced(owner);
  const record = (await recordsOf(owner)).get("c0000") as Json;
  expect((await stranger.get("/v1/crm/syncs")).body.items).toEqual([]);
  expectProblem(await stranger.get(`/v1/crm/syncs/${id}`), 404, "sync_not_found");
  expectProblem(await stranger.get(`/v1/crm/syncs/${id}/failures`), 404, "sync_not_found");
  expect((await stranger.get(`/v1/crm/links?crm_id=${record.id}`)).body.items).toEqual([]);
  expect((await stranger.get("/v1/crm/links")).body.items).toMatchObject([
    { contact_id: "c0000", crm_id: null, state: "none", pending: true },
  ]);
  // The other tenant's account reports a change of the owner's record: it is not a contact of the other tenant.
  await theCrm().edit(record.id, { phone: "+9" });
  await notify(stranger.tenantId, [event(record.id)]);
  expect(await looked(stranger, 1)).toMatchObject([{ did: "left" }]);
  expect(await contactOf(stranger, "c0000")).toMatchObject({ revision: 1, properties: {} });
  expect(await contactOf(owner, "c0000")).toMatchObject({ revision: 1 });
  // Two tenants may give a contact the same name: they are two records.
  await synced(stranger);
  expect((await recordsOf(stranger)).get("c0000")?.id).not.toBe(record.id);
  await syncIn(owner, id, "complete");
});

it("pending changes are shown by contact, by record and page by page", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 3));
  await synced(caller);
  await bring(
    caller,
    people(caller, 2, 1).map((row) => ({ ...row, name: "Renamed" })),
  );
  const { body } = await caller.get("/v1/crm/links?pending=true");
  expect(body.items).toMatchObject([{ contact_id: "c0001", revision: 2, synced_revision: 1 }, { contact_id: "c0002" }]);
  expect((await caller.get("/v1/crm/links?pending=false")).body.items).toMatchObject([{ contact_id: "c0000" }]);
  const link = await linkOf(caller, "c0001");
  expect((await caller.get(`/v1/crm/links?crm_id=${link.crm_id}`)).body.items).toEqual([link]);
  const first = (await caller.get("/v1/crm/links?limit=2")).body;
  expect(first.items).toHaveLength(2);
  expect((await caller.get(`/v1/crm/links?limit=2&cursor=${first.next_cursor}`)).body).toMatchObject({
    items: [{ contact_id: "c0002" }],
    next_cursor: null,
  });
  expect(
    (await env.DB.prepare("SELECT count(*) AS count FROM crm_links WHERE tenant_id = ?1").bind(caller.tenantId).first<Json>()).count,
  ).toBe(3);
});
