import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { takeChange } from "../../src/crm/change.ts";
import type { Envelope } from "../../src/engine/index.ts";
import { callerWith, fresh, type Json, reaches, until } from "../api/client.ts";
import { adopt, moves } from "./accounts.ts";
import { bring, command, contactOf, event, linkOf, looked, merge, notify, people, recordsOf, synced, theCrm } from "./crm.ts";

const CREATION = { subscriptionType: "contact.creation", propertyName: undefined };
const DELETION = { subscriptionType: "contact.deletion", propertyName: undefined };

const made = (properties: Record<string, string>) => theCrm().edit(null, properties) as Promise<Json>;

it("a contact that is called as one made in the CRM would be stays as it is: the one made there is called otherwise", async () => {
  const caller = await callerWith();
  const stranger = await made({ email: `stranger@${caller.tenantId}.example.com`, firstname: "Stranger", phone: "999" });
  const names = [`crm-${stranger.id}`, `crm-4224001-${stranger.id}`];
  const rows = names.map((id) => ({
    contact_id: id,
    email: `${id}@${caller.tenantId}.example.com`,
    name: "Victim",
    properties: { phone: "5" },
  }));
  await bring(caller, rows);
  // One of them has a record of its own, and the other has none yet.
  await command(caller, "contact.sync", { contact_id: names[0], occasion: "1" });
  await until(
    () => linkOf(caller, names[0] ?? ""),
    ({ state }) => state === "linked",
  );
  await notify(caller.tenantId, [event(stranger.id, CREATION)]);
  expect(await looked(caller, 1)).toMatchObject([{ did: "created", contact_id: `crm-4224001-${stranger.id}-2` }]);
  for (const row of rows) expect(await contactOf(caller, row.contact_id)).toMatchObject({ ...row, revision: 1 });
  expect(await linkOf(caller, names[1] ?? "")).toMatchObject({ state: "none", crm_id: null });
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, failed: 0 });
  expect([...(await recordsOf(caller)).keys()].sort()).toEqual([...names, `crm-4224001-${stranger.id}-2`].sort());
});

it("a record of another account is another contact, though it has the same id there", async () => {
  const caller = await callerWith();
  const ids: string[] = [];
  for (const name of ["First", "Second"]) {
    const account = await moves();
    await reaches(caller, await adopt(caller, account), "complete");
    const { id } = await made({ email: `${name}@${caller.tenantId}.example.com`, firstname: name });
    const portalId = Number(account.slice("embedded/".length));
    await notify(caller.tenantId, [event(id, { ...CREATION, portalId })], { vars: { CRM_ACCOUNT: String(portalId) } });
    await looked(caller, ids.push(id));
  }
  expect(new Set(ids).size).toBe(1);
  expect((await caller.get("/v1/contacts")).body.items.map(({ name }: Json) => name)).toEqual(["First", "Second"]);
});

it("a person who is known as another contact gets one record, when it is made in the CRM, and that is the other's", async () => {
  for (const hasRecord of [false, true]) {
    const caller = await callerWith();
    await bring(caller, people(caller, 2));
    await merge(caller, "c0000", "c0001");
    if (hasRecord) await synced(caller);
    const record = await made({ email: `c0000@${caller.tenantId}.example.com`, jobtitle: "Pilot" });
    await notify(caller.tenantId, [event(record.id, CREATION)]);
    await looked(caller, 1);
    const merged = await until(
      () => recordsOf(caller),
      (records) => records.size === 1 && records.get("c0001")?.properties.jobtitle === "Pilot",
    );
    await synced(caller);
    expect([...(await recordsOf(caller)).keys()]).toEqual(["c0001"]);
    expect(merged.get("c0001")?.properties).toMatchObject({ jobtitle: "Pilot" });
    expect(await linkOf(caller, "c0000")).toMatchObject({ state: "merged", crm_id: null, pending: false });
    expect(await linkOf(caller, "c0001")).toMatchObject({ state: "linked", pending: false });
    expect((await caller.get("/v1/contacts")).body.items).toHaveLength(2);
  }
});

it("a record that is deleted and made again at once is the same contact's, whichever notice is looked at first", async () => {
  for (const first of ["deletion", "creation", "a creation whose look was lost"]) {
    const caller = await callerWith();
    await bring(
      caller,
      people(caller, 1).map((row) => ({ ...row, properties: { phone: "5" } })),
    );
    await synced(caller);
    const old = (await recordsOf(caller)).get("c0000") as Json;
    await theCrm().edit(old.id, null);
    const again = await made({ email: old.properties.email, firstname: "Person", lastname: "c0000" });
    const notices = [event(old.id, DELETION), event(again.id, CREATION)];
    if (first !== "deletion") notices.reverse();
    const notice = { crm_id: again.id, event_id: fresh("e"), occurred_at: new Date().toISOString(), merged: [] };
    const call = { env, envelope: { tenant_id: caller.tenantId } as Envelope, instanceId: fresh("look"), notice };
    if (first.endsWith("lost")) await takeChange(call);
    for (const [index, notice] of notices.entries()) {
      await notify(caller.tenantId, [notice]);
      await looked(caller, index + 1);
    }
    expect(await linkOf(caller, "c0000"), first).toMatchObject({ state: "linked", crm_id: again.id });
    // What only the record before had is not emptied here: it is sent again.
    expect((await contactOf(caller, "c0000")).properties, first).toEqual({ phone: "5" });
    await synced(caller);
    expect((await recordsOf(caller)).get("c0000"), first).toMatchObject({ id: again.id, properties: { phone: "5" } });
    expect((await caller.get("/v1/contacts")).body.items, first).toHaveLength(1);
  }
});

it("a record whose name is no contact's id is left", async () => {
  const caller = await callerWith();
  for (const id of ["", "x".repeat(201)]) {
    const record = await made({ email: `j${id.length}@${caller.tenantId}.example.com`, millrace_id: `${caller.tenantId}/${id}` });
    await notify(caller.tenantId, [event(record.id, CREATION)]);
  }
  expect(await looked(caller, 2)).toMatchObject([{ did: "left" }, { did: "left" }]);
  expect((await caller.get("/v1/contacts")).body.items).toEqual([]);
});
