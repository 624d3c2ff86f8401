import { env } from "cloudflare:workers";
import { atomically, type Envelope } from "millrace";
import { expect, it } from "vitest";
import { takeChange } from "../../../src/systems/crm/change.ts";
import { type Caller, callerWith, type Json, until } from "../../api/client.ts";
import {
  bring,
  callsSince,
  command,
  contactOf,
  event,
  lastCall,
  linkOf,
  looked,
  looks,
  notify,
  people,
  type Row,
  recordsOf,
  synced,
  theCrm,
} from "./crm.ts";

/** A tenant with contacts that are already in the CRM. */
async function inStep(count = 1, name?: string): Promise<{ caller: Caller; idOf: (contact: string) => string }> {
  const caller = await callerWith();
  await bring(
    caller,
    people(caller, count).map((row) => ({ ...row, ...(name !== undefined && { name }) })),
  );
  await synced(caller);
  const records = await recordsOf(caller);
  return { caller, idOf: (contact) => records.get(contact)?.id ?? "" };
}

const tell = (caller: Caller, id: string, more: object = {}) => notify(caller.tenantId, [event(id, more)]);

it("a contact with an id of two hundred surrogate pairs is imported like any other", async () => {
  const caller = await callerWith();
  const contactId = "🐎".repeat(200);
  await bring(caller, [{ contact_id: contactId, email: `horse@${caller.tenantId}.example.com` }]);
  await synced(caller);
  const id = (await recordsOf(caller)).get(contactId)?.id ?? "";
  await theCrm().edit(id, { phone: "+1", firstname: "🦄".repeat(99) });
  await tell(caller, id);
  expect(await looked(caller, 1)).toMatchObject([{ did: "took", contact_id: contactId }]);
  expect(await contactOf(caller, contactId)).toMatchObject({ name: "🦄".repeat(99), properties: { phone: "+1" }, revision: 2 });
});

it("a user's change in the CRM is imported, is a revision, and is not sent back", async () => {
  const { caller, idOf } = await inStep();
  const id = idOf("c0000");
  await theCrm().edit(id, { firstname: "Mary Ann", lastname: "Smith", phone: "+1", jobtitle: "Captain" });
  // The webhook contains one property, and a value that the property no longer has.
  expect((await tell(caller, id, { propertyValue: "+0" })).body).toEqual({ accepted: 1, known: 0, foreign: 0, unread: 0 });
  expect(await looked(caller, 1)).toMatchObject([{ did: "took", contact_id: "c0000" }]);
  expect(await contactOf(caller, "c0000")).toMatchObject({
    name: "Mary Ann Smith",
    properties: { phone: "+1", jobtitle: "Captain" },
    revision: 2,
    imported_by: "crm",
  });
  expect(await linkOf(caller, "c0000")).toMatchObject({ revision: 2, synced_revision: 2, pending: false });

  const before = await lastCall();
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, skipped: 0 });
  expect((await synced(caller, "all")).contacts).toMatchObject({ done: 0, skipped: 1, taken: 0 });
  expect(await callsSince(before)).toEqual(["batch/read 1"]);
  // The CRM splits the name differently, and keeps that when another property changes in the engine.
  expect((await recordsOf(caller)).get("c0000")?.properties).toMatchObject({ firstname: "Mary Ann", lastname: "Smith" });
});

it("the engine's own writes are not imported, with or without their origin in the webhook, and a read finds no change", async () => {
  const { caller, idOf } = await inStep();
  const id = idOf("c0000");
  const ours = { changeSource: "INTEGRATION", sourceId: "1160452" };
  const echoes = [
    event(id, { ...ours }),
    event(id, { propertyName: "firstname", propertyValue: "Person", occurredAt: Date.now() - 60_000 }),
    event(id, { subscriptionType: "contact.creation", propertyName: undefined }),
  ];
  expect((await notify(caller.tenantId, echoes)).body).toEqual({ accepted: 0, known: 0, foreign: 0, unread: 0 });
  expect(await looks(caller)).toEqual([]);
  await tell(caller, id);
  expect(await looked(caller, 1)).toMatchObject([{ did: "nothing" }]);
  expect(await contactOf(caller, "c0000")).toMatchObject({ revision: 1, imported_by: expect.not.stringMatching(/^crm$/) });
});

it("a webhook that arrives before the sync has recorded its writes finds no change", async () => {
  const { caller, idOf } = await inStep();
  await env.DB.prepare("DELETE FROM crm_links WHERE tenant_id = ?1").bind(caller.tenantId).run();
  await tell(caller, idOf("c0000"));
  expect(await looked(caller, 1)).toMatchObject([{ did: "nothing" }]);
  expect(await contactOf(caller, "c0000")).toMatchObject({ revision: 1 });
  expect(await linkOf(caller, "c0000")).toMatchObject({ crm_id: idOf("c0000"), pending: false });
});

it("changes of a contact in the CRM and in the engine are both kept, and the CRM's value wins a conflict, in any order", async () => {
  for (const first of ["notice", "sync"]) {
    const { caller, idOf } = await inStep();
    const [row] = people(caller, 1) as [Json];
    const id = idOf("c0000");
    await theCrm().edit(id, { phone: "theirs", city: "Oslo" });
    await bring(caller, [{ ...row, properties: { phone: "ours", jobtitle: "Pilot" } }]);
    const notice = async () => {
      const count = (await looks(caller)).length;
      await tell(caller, id);
      await looked(caller, count + 1);
    };
    if (first === "notice") await notice();
    expect((await synced(caller)).contacts).toMatchObject({ done: 1, failed: 0, taken: first === "notice" ? 0 : 1 });
    await notice();
    expect((await synced(caller)).contacts).toMatchObject({ done: 0, taken: 0 });
    expect((await contactOf(caller, "c0000")).properties, first).toEqual({ phone: "theirs", city: "Oslo", jobtitle: "Pilot" });
    expect((await recordsOf(caller)).get("c0000")?.properties, first).toMatchObject({ phone: "theirs", city: "Oslo", jobtitle: "Pilot" });
    expect(await linkOf(caller, "c0000"), first).toMatchObject({ revision: 3, pending: false });
  }
});

it("changes in both directions, with every webhook twice and in any order, end in equal states without further writes", async () => {
  const { caller, idOf } = await inStep(40);
  const rows = people(caller, 40);
  for (const row of rows.slice(0, 30)) await theCrm().edit(idOf(row.contact_id), { city: `C ${row.contact_id}` });
  const notices = rows.slice(0, 30).map(({ contact_id: contact }) => [event(idOf(contact), { propertyName: "city", propertyValue: "?" })]);
  const shuffled = [...notices, ...notices].sort(() => Math.random() - 0.5);
  await Promise.all([
    ...shuffled.map((notice) => notify(caller.tenantId, notice)),
    bring(
      caller,
      rows.slice(15).map((row) => ({ ...row, name: `New ${row.contact_id}` })),
    ).then(() => synced(caller)),
    synced(caller, "all"),
  ]);
  await looked(caller, 30);
  await synced(caller);
  const quiet = await lastCall();
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, failed: 0, taken: 0 });
  expect(await callsSince(quiet)).toEqual([]);
  const records = await recordsOf(caller);
  for (const [index, { contact_id: contact }] of rows.entries()) {
    const ours = await contactOf(caller, contact);
    // A file after the import of the CRM's change replaces the contact: then the contact has no city, and the CRM keeps its own.
    expect([index < 30 ? `C ${contact}` : undefined, index < 15 ? `C ${contact}` : undefined], contact).toContain(ours.properties.city);
    expect(ours.name, contact).toBe(index < 15 ? `Person ${contact}` : `New ${contact}`);
    expect(records.get(contact)?.properties, contact).toMatchObject({
      firstname: index < 15 ? "Person" : "New",
      lastname: contact,
      ...(index < 30 && { city: `C ${contact}` }),
    });
    // One revision for the file, one for each side that changed the contact: there is no empty revision. A file after the import of the
    // CRM's change replaces the whole contact, so that change is imported once more.
    const [there, here] = [index < 30 ? 1 : 0, index < 15 ? 0 : 1];
    expect([1 + there + here, 1 + there + here + there * here], contact).toContain(ours.revision);
  }
});

it("a file without a column clears nothing in the CRM; an empty value does", async () => {
  const { caller, idOf } = await inStep(2);
  const rows = people(caller, 2);
  for (const { contact_id: contact } of rows) await theCrm().edit(idOf(contact), { city: "Paris" });
  await notify(
    caller.tenantId,
    rows.map(({ contact_id: contact }) => event(idOf(contact), { propertyName: "city" })),
  );
  await looked(caller, 2);
  await bring(caller, [
    { ...rows[0], name: "Renamed" },
    { ...rows[1], properties: { ...rows[1]?.properties, city: "" } },
  ] as typeof rows);
  await synced(caller);
  const records = await recordsOf(caller);
  expect(records.get("c0000")?.properties).toMatchObject({ firstname: "Renamed", city: "Paris" });
  expect(records.get("c0001")?.properties.city ?? "").toBe("");
});

it("a contact created in the CRM is imported with the engine's name, or matched to the contact with the same e-mail address", async () => {
  const { caller } = await inStep();
  const made = (await theCrm().edit(null, {
    email: `new@${caller.tenantId}.example.com`,
    firstname: "Nia",
    lastname: "New",
    phone: "+5",
  })) as Json;
  await bring(caller, people(caller, 1, 5));
  const same = (await theCrm().edit(null, { email: `C0005@${caller.tenantId}.example.com`, jobtitle: "Baker" })) as Json;
  const nobody = (await theCrm().edit(null, { firstname: "No", lastname: "Address" })) as Json;
  const creation = { subscriptionType: "contact.creation", propertyName: undefined };
  await notify(caller.tenantId, [event(made.id, creation), event(same.id, creation), event(nobody.id, creation), event(made.id)]);
  const came = await looked(caller, 3);
  expect(came.map(({ did, contact_id }) => `${did} ${contact_id}`).sort()).toEqual([
    `created crm-4224001-${made.id}`,
    "left null",
    "took c0005",
  ]);
  expect(await contactOf(caller, `crm-4224001-${made.id}`)).toMatchObject({
    email: made.properties.email,
    name: "Nia New",
    properties: { phone: "+5" },
    revision: 1,
    imported_by: "crm",
  });
  expect(await contactOf(caller, "c0005")).toMatchObject({ name: "Person c0005", properties: { jobtitle: "Baker" }, revision: 2 });
  // The next sync adds the missing properties in the CRM, and creates no second record.
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, failed: 0 });
  const records = await recordsOf(caller);
  expect([...records.keys()].sort()).toEqual(["c0000", "c0005", `crm-4224001-${made.id}`]);
  expect(records.get("c0005")).toMatchObject({ id: same.id, properties: { firstname: "Person", jobtitle: "Baker" } });
});

it("a contact that is deleted in the CRM remains in the engine, and only an explicit sync of it restores it", async () => {
  const { caller, idOf } = await inStep(2);
  await theCrm().edit(idOf("c0000"), null);
  await tell(caller, idOf("c0000"), { subscriptionType: "contact.deletion", propertyName: undefined });
  expect(await looked(caller, 1)).toMatchObject([{ did: "cut", contact_id: "c0000" }]);
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "cut", crm_id: null, pending: false });
  // The other contact is deleted without a webhook; a sync with a read detects it.
  await theCrm().edit(idOf("c0001"), null);
  await bring(
    caller,
    people(caller, 2).map((row) => ({ ...row, name: "Renamed" })),
  );
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, failed: 0, skipped: 1 });
  expect(await linkOf(caller, "c0001")).toMatchObject({ state: "cut" });
  expect((await synced(caller, "all")).contacts).toMatchObject({ done: 0 });
  expect((await recordsOf(caller)).size).toBe(0);
  await command(caller, "contact.sync", { contact_id: "c0000", occasion: "wanted back" });
  await until(
    () => linkOf(caller, "c0000"),
    ({ state }) => state === "linked",
  );
  expect((await recordsOf(caller)).get("c0000")).toMatchObject({ properties: { firstname: "Renamed" } });
});

it("a late read of a CRM record does not overwrite the data of a newer read", async () => {
  const { caller, idOf } = await inStep();
  await theCrm().edit(idOf("c0000"), { phone: "old" });
  await tell(caller, idOf("c0000"));
  await looked(caller, 1);
  // Another reader got the newest state meanwhile, by the CRM's clock.
  await env.DB.prepare("UPDATE crm_links SET read_at = read_at + 60000 WHERE tenant_id = ?1").bind(caller.tenantId).run();
  await theCrm().edit(idOf("c0000"), { phone: "older than what is known" });
  await tell(caller, idOf("c0000"));
  await looked(caller, 2);
  expect((await contactOf(caller, "c0000")).properties).toEqual({ phone: "old" });
});

it("a name that is only split differently in the CRM is not a change in the engine, and the engine's next change is still sent", async () => {
  for (const noticed of [true, false]) {
    const { caller, idOf } = await inStep(1, "Anna Maria Berg");
    const [row] = people(caller, 1) as [Row];
    await theCrm().edit(idOf("c0000"), { firstname: "Anna Maria", lastname: "Berg" });
    if (noticed) {
      await tell(caller, idOf("c0000"));
      await looked(caller, 1);
    } else await synced(caller, "all");
    expect(await contactOf(caller, "c0000")).toMatchObject({ name: "Anna Maria Berg", revision: 1 });
    expect(await linkOf(caller, "c0000")).toMatchObject({ revision: 1, synced_revision: 1, pending: false });

    await bring(caller, [{ ...row, name: "Anna Maria Berg", properties: { phone: "+47" } }]);
    expect((await synced(caller)).contacts).toMatchObject({ done: 1 });
    expect((await recordsOf(caller)).get("c0000")?.properties).toMatchObject({ firstname: "Anna Maria", lastname: "Berg", phone: "+47" });
  }
});

it("a second read of a contact that was just created in the CRM waits for the first, or until its timeout: the newest state is kept", async () => {
  for (const dies of [false, true]) {
    const caller = await callerWith();
    const { id } = (await theCrm().edit(null, { email: `n@${caller.tenantId}.example.com`, firstname: "Nia", phone: "1" })) as Json;
    const look = (instanceId: string) =>
      takeChange({
        env,
        envelope: { tenant_id: caller.tenantId } as Envelope,
        instanceId,
        notice: { crm_id: id, event_id: instanceId, occurred_at: new Date().toISOString(), merged: [] },
      });
    const first = await look("look-1");
    await theCrm().edit(id, { phone: "2", lastname: "New" });
    const second = look("look-2");
    if (dies) await env.DB.prepare("UPDATE crm_sends SET until = 0 WHERE tenant_id = ?1").bind(caller.tenantId).run();
    else await atomically(env.DB, first.statements ?? []);
    await atomically(env.DB, (await second).statements ?? []);
    // The contact was created meanwhile: the second reader reads again.
    if (dies) await expect(atomically(env.DB, first.statements ?? [])).rejects.toThrow(/contact_changed_meanwhile/);
    expect(await contactOf(caller, `crm-4224001-${id}`)).toMatchObject({ name: "Nia New", properties: { phone: "2" } });
    await synced(caller, "all");
    expect(await linkOf(caller, `crm-4224001-${id}`)).toMatchObject({ pending: false });
    expect((await recordsOf(caller)).get(`crm-4224001-${id}`)?.properties).toMatchObject({ phone: "2", lastname: "New" });
  }
});
