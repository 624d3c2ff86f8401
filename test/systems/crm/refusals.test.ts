import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import {
  bring,
  callsSince,
  command,
  contactOf,
  ended,
  event,
  lastCall,
  linkOf,
  looked,
  merge,
  notify,
  people,
  recordsOf,
  synced,
  theCrm,
} from "./crm.ts";

afterEach(() => theCrm().setFaults([]));

/** A tenant with contacts that are already in the CRM. */
async function inStep(count: number) {
  const caller = await callerWith();
  const rows = people(caller, count);
  await bring(caller, rows);
  await synced(caller);
  const records = await recordsOf(caller);
  const change = (properties: object, ...indexes: number[]) =>
    bring(
      caller,
      indexes.flatMap((index) => (rows[index] ? [{ ...rows[index], properties: { ...properties } }] : [])),
    );
  return { caller, change, idOf: (contact: string) => records.get(contact)?.id ?? "" };
}

/** A refused contact, with its consequences in the CRM. */
async function merged(caller: Caller, from: string, into: string): Promise<void> {
  await merge(caller, from, into);
  await until(
    async () => (await caller.get("/v1/instances?workflow=sync-contact")).body.items as Json[],
    (all) => all.length > 0 && all.every(({ status }) => status === "complete" || status === "errored"),
  );
}

async function failures(caller: Caller, sync: Json): Promise<Json[]> {
  return (await caller.get(`/v1/crm/syncs/${sync.sync_id}/failures`)).body.items;
}

it("a contact with a company that the CRM refuses to associate is listed alone, and the next sync retries only that contact", async () => {
  const { caller, change, idOf } = await inStep(9);
  await change({ company: "Acme" }, 0, 1, 2, 3, 4, 5, 6, 7, 8);
  await theCrm().setFaults([{ match: `"from":{"id":"${idOf("c0003")}"}`, status: 400, category: "VALIDATION_ERROR", remaining: null }]);
  const sync = await synced(caller);
  expect(sync).toMatchObject({ state: "complete", contacts: { done: 8, failed: 1 } });
  expect(await failures(caller, sync)).toMatchObject([{ contact_id: "c0003", state: "failed", category: "VALIDATION_ERROR" }]);
  expect(await linkOf(caller, "c0003")).toMatchObject({ state: "linked", pending: true, error: { category: "VALIDATION_ERROR" } });
  expect(await linkOf(caller, "c0004")).toMatchObject({ state: "linked", pending: false, error: null });

  await theCrm().setFaults([]);
  const before = await lastCall();
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, failed: 0 });
  expect((await callsSince(before)).sort()).toEqual(["associate/default 1", "batch/read 1", "batch/upsert 1"]);
  const connected = new Set((await theCrm().associations()).map(({ contact }) => contact));
  expect([...(await recordsOf(caller)).values()].filter(({ id }) => !connected.has(id))).toEqual([]);
  expect(await linkOf(caller, "c0003")).toMatchObject({ pending: false, error: null });
});

it("a contact that was merged into a contact with a deleted CRM record delays no other contact, and a contact.sync restores both in order", async () => {
  const { caller, change, idOf } = await inStep(4);
  // The webhook about it is lost.
  await theCrm().edit(idOf("c0001"), null);
  await theCrm().setFaults([{ match: "/merge", status: 400, category: "VALIDATION_ERROR", remaining: null }]);
  await merged(caller, "c0000", "c0001");
  await theCrm().setFaults([]);
  await theCrm().edit((await recordsOf(caller)).get("c0001")?.id ?? "", null);
  await change({ jobtitle: "Pilot" }, 0, 2, 3);
  const sync = await synced(caller);
  expect(sync).toMatchObject({ state: "complete", contacts: { done: 2, failed: 1 } });
  expect(await failures(caller, sync)).toMatchObject([{ contact_id: "c0000", category: "CANONICAL_MISSING" }]);
  expect(await linkOf(caller, "c0003")).toMatchObject({ pending: false });
  expect(await linkOf(caller, "c0001")).toMatchObject({ state: "cut" });

  await ended(caller, await command(caller, "contact.sync", { contact_id: "c0001", occasion: fresh("o") }));
  expect((await synced(caller)).contacts).toMatchObject({ failed: 0, merged: 1 });
  expect([...(await recordsOf(caller)).keys()].sort()).toEqual(["c0001", "c0002", "c0003"]);
});

it("a merge that the CRM refuses and a CRM record that cannot be read are listed, and the sync of the other contacts continues", async () => {
  const { caller, change, idOf } = await inStep(4);
  await theCrm().setFaults([
    { match: "/merge", status: 400, category: "VALIDATION_ERROR", remaining: null },
    { match: `{"id":"${idOf("c0002")}"}`, status: 400, category: "VALIDATION_ERROR", remaining: null },
  ]);
  await merged(caller, "c0000", "c0001");
  await change({ jobtitle: "Pilot" }, 0, 2, 3);
  const sync = await synced(caller);
  expect(sync).toMatchObject({ state: "complete", contacts: { done: 1, failed: 2 } });
  expect((await failures(caller, sync)).map(({ contact_id: id }) => id)).toEqual(["c0000", "c0002"]);
  expect((await recordsOf(caller)).get("c0003")?.properties).toMatchObject({ jobtitle: "Pilot" });
  await theCrm().setFaults([]);
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, failed: 0, merged: 1 });
});

it("a merge of CRM records with a lost response is found by the name of the remaining record, also when that name has changed in the engine", async () => {
  await using introspector = await introspectWorkflow(env.SYNC_CONTACTS);
  await introspector.modifyAll((each) => each.disableRetryDelays());
  const { caller, change } = await inStep(2);
  await theCrm().setFaults([{ match: "/merge", status: 400, category: "VALIDATION_ERROR", remaining: null }]);
  await merged(caller, "c0000", "c0001");
  await theCrm().setFaults([{ match: "/merge", status: 504, remaining: 1, afterEffect: true }]);
  await change({ jobtitle: "Pilot" }, 0, 1);
  expect((await synced(caller)).contacts).toMatchObject({ failed: 0, merged: 1 });
  const records = await recordsOf(caller);
  expect([...records.keys()]).toEqual(["c0001"]);
  expect(await linkOf(caller, "c0001")).toMatchObject({ crm_id: records.get("c0001")?.id, pending: false });
});

it("a CRM record without the engine's name is neither read nor written; a contact.sync creates a separate record", async () => {
  const { caller, change } = await inStep(2);
  const email = `stranger@${caller.tenantId}.example.com`;
  const stranger = (await theCrm().edit(null, { email, firstname: "Some", lastname: "Stranger", phone: "+999" })) as Json;
  // Another account differs only in this: its records have the ids of the links.
  const links = env.DB.prepare("UPDATE crm_links SET crm_id = ?1 WHERE tenant_id = ?2 AND contact_id = 'c0000'");
  await links.bind(stranger.id, caller.tenantId).run();
  const before = await contactOf(caller, "c0000");
  expect((await notify(caller.tenantId, [event(stranger.id)])).body).toMatchObject({ accepted: 1 });
  expect(await looked(caller, 1)).toMatchObject([{ did: "left", contact_id: "c0000" }]);
  expect(await contactOf(caller, "c0000")).toEqual(before);
  expect(await linkOf(caller, "c0000")).toMatchObject({ error: { category: "FOREIGN_RECORD" } });

  // If only local fields changed, the record is read, too, and its values apply.
  await change({ shoe_size: 44 }, 0);
  expect((await synced(caller)).contacts).toMatchObject({ failed: 1, skipped: 0 });
  expect(await linkOf(caller, "c0000")).toMatchObject({ error: { category: "FOREIGN_RECORD" } });

  await change({ jobtitle: "Pilot" }, 0, 1);
  const sync = await synced(caller);
  expect(sync.contacts).toMatchObject({ done: 1, failed: 1, taken: 0 });
  expect(await failures(caller, sync)).toMatchObject([{ contact_id: "c0000", category: "FOREIGN_RECORD" }]);
  expect(await contactOf(caller, "c0000")).toMatchObject({ email: before.email, name: before.name });
  const untouched = (await theCrm().list("contacts")).find(({ id }) => id === stranger.id);
  expect(untouched).toMatchObject({ key: null, properties: { email, firstname: "Some", phone: "+999" } });

  await ended(caller, await command(caller, "contact.sync", { contact_id: "c0000", occasion: fresh("o") }));
  expect(await linkOf(caller, "c0000")).toMatchObject({ crm_id: (await recordsOf(caller)).get("c0000")?.id, pending: false, error: null });
});

it("a contact.sync creates another record when a user has removed the engine's name from the first, also without a change in the engine", async () => {
  for (const isListed of [true, false]) {
    const { caller, idOf } = await inStep(1);
    const before = await contactOf(caller, "c0000");
    // A user removes the engine's name from the record, and its e-mail address.
    await theCrm().edit(idOf("c0000"), { millrace_id: "", email: `other@${caller.tenantId}.example.com` });
    if (isListed) expect((await synced(caller, "all")).contacts).toMatchObject({ failed: 1 });
    await ended(caller, await command(caller, "contact.sync", { contact_id: "c0000", occasion: fresh("o") }));
    const own = (await recordsOf(caller)).get("c0000");
    expect(own).toMatchObject({ properties: { email: before.email, firstname: "Person" } });
    expect(own?.id).not.toBe(idOf("c0000"));
    expect(await linkOf(caller, "c0000")).toMatchObject({ crm_id: own?.id, pending: false, error: null });
  }
});
