import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { callerWith } from "../../api/client.ts";
import { bring, callsSince, command, contactOf, ended, lastCall, linkOf, people, recordsOf, synced, theCrm } from "./crm.ts";

afterEach(() => theCrm().setFaults([]));

it("a retry of a sync sends only the contacts that the CRM deferred; refused ones are listed with its message, and a later sync sends the corrected ones", async () => {
  await using introspector = await introspectWorkflow(env.SYNC_CONTACTS);
  await introspector.modifyAll((each) => each.disableSleeps());
  const caller = await callerWith();
  const rows = people(caller, 120);
  const shared = rows[3]?.email ?? "";
  await bring(
    caller,
    rows.map((row, index) => (index === 50 ? { ...row, email: shared } : row)),
  );
  await theCrm().setFaults([
    { match: "", key: `${caller.tenantId}/c0007`, status: 503, category: "INTERNAL_ERROR", remaining: 1 },
    { match: "", key: `${caller.tenantId}/c0110`, status: 503, category: "INTERNAL_ERROR", remaining: 2 },
    { match: "", key: `${caller.tenantId}/c0111`, status: 503, category: "INTERNAL_ERROR", remaining: null },
  ]);
  const before = await lastCall();
  const sync = await synced(caller);
  expect(sync).toMatchObject({ state: "complete", contacts: { done: 118, failed: 2, waiting: 0 } });
  const calls = await callsSince(before);
  // The two chunks, then rounds that contain only the waiting contacts.
  expect(calls.filter((call) => call.startsWith("batch/upsert"))).toEqual([
    "batch/upsert 100",
    "batch/upsert 20",
    "batch/upsert 3",
    "batch/upsert 2",
    "batch/upsert 1",
    "batch/upsert 1",
  ]);
  const { body } = await caller.get(`/v1/crm/syncs/${sync.sync_id}/failures`);
  expect(body.items).toMatchObject([
    {
      contact_id: "c0050",
      state: "failed",
      category: "CONFLICT",
      message: expect.stringContaining("already"),
      correlation_id: expect.any(String),
      tries: 1,
    },
    { contact_id: "c0111", state: "failed", category: "INTERNAL_ERROR", tries: 5 },
  ]);
  expect(await linkOf(caller, "c0050")).toMatchObject({ crm_id: null, state: "none", pending: true, error: { category: "CONFLICT" } });
  const page = (await caller.get(`/v1/crm/syncs/${sync.sync_id}/failures?limit=1`)).body;
  expect(page.items).toHaveLength(1);
  expect((await caller.get(`/v1/crm/syncs/${sync.sync_id}/failures?limit=1&cursor=${page.next_cursor}`)).body).toMatchObject({
    items: [{ contact_id: "c0111" }],
    next_cursor: null,
  });

  await theCrm().setFaults([]);
  await bring(caller, [{ ...rows[50], contact_id: "c0050", email: `mended@${caller.tenantId}.example.com` }]);
  expect((await synced(caller)).contacts).toMatchObject({ done: 2, failed: 0 });
  expect((await recordsOf(caller)).size).toBe(120);
  expect(await linkOf(caller, "c0050")).toMatchObject({ state: "linked", pending: false, error: null });
});

it("a deferred CRM call is repeated at the time that the CRM gives, and a call with a lost response creates nothing twice", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 20));
  await theCrm().setFaults([
    { match: "contacts/batch/upsert", status: 503, remaining: 1, retryAfter: 1 },
    { match: "contacts/batch/upsert", status: 502, remaining: 1, afterEffect: true },
  ]);
  await using introspector = await introspectWorkflow(env.SYNC_CONTACTS);
  await introspector.modifyAll((each) => each.disableRetryDelays());
  expect((await synced(caller)).contacts).toMatchObject({ done: 20, failed: 0 });
  expect((await recordsOf(caller)).size).toBe(20);
});

it("a sync of one contact shows the reason of its refusal in its instance, and continues when it is retried after a fix", async () => {
  const caller = await callerWith();
  const [row] = people(caller, 1).map((one) => ({ ...one, properties: { company: "Globex" } }));
  if (!row) throw new Error("There is nobody.");
  await bring(caller, [row]);
  await theCrm().setFaults([{ match: "", key: `${caller.tenantId}/c0000`, status: 400, category: "VALIDATION_ERROR", remaining: 1 }]);
  const asked = { contact_id: "c0000", occasion: "1" };
  const instance = await command(caller, "contact.sync", asked);
  const error = await ended(caller, instance, "errored");
  expect(error.code).toBe("not_retryable");
  // The category and the correlation id occur once.
  expect(error.message).toMatch(/^(?!.*(VALIDATION_ERROR|correlation id).*\1).*: VALIDATION_ERROR: \S.*, correlation id [0-9a-f-]{36}\.$/);
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "none", pending: true, error: { category: "VALIDATION_ERROR" } });
  expect((await caller.post(`/v1/instances/${instance}/retry`, { reason: "mended" })).status).toBe(202);
  const { crm_id: crmId } = await ended(caller, instance);
  expect((await recordsOf(caller)).get("c0000")).toMatchObject({ id: crmId, properties: { company: "Globex" } });
  expect((await theCrm().associations()).filter(({ contact }) => contact === crmId)).toHaveLength(1);
  // Two requests are one instance; a request for another occasion reads the record, and finds nothing to send.
  const before = await lastCall();
  expect(await command(caller, "contact.sync", asked)).toBe(instance);
  expect(await ended(caller, await command(caller, "contact.sync", { ...asked, occasion: "2" }))).toMatchObject({ crm_id: crmId });
  expect(await callsSince(before)).toEqual(["batch/read 1"]);
  expect(await contactOf(caller, "c0000")).toMatchObject({ revision: 1 });
});

it("a sync of a missing contact fails with an error that names the contact", async () => {
  const caller = await callerWith();
  const error = await ended(caller, await command(caller, "contact.sync", { contact_id: "nobody", occasion: "1" }), "errored");
  expect(error.message).toContain("There is no contact “nobody”");
});
