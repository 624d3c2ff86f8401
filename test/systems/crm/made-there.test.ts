import { env } from "cloudflare:workers";
import { atomically, type Envelope } from "millrace";
import { afterEach, expect, it } from "vitest";
import { takeChange } from "../../../src/systems/crm/change.ts";
import { type Caller, callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { adopt, moves } from "./accounts.ts";
import { bring, command, contactOf, ended, event, linkOf, looked, merge, notify, people, recordsOf, synced, theCrm } from "./crm.ts";

const CREATION = { subscriptionType: "contact.creation", propertyName: undefined };
const DELETION = { subscriptionType: "contact.deletion", propertyName: undefined };

afterEach(() => theCrm().setFaults([]));

/** The recorded workers of the tenant's contacts are gone. */
const dies = ({ tenantId }: Caller) => env.DB.prepare("UPDATE crm_sends SET until = 0 WHERE tenant_id = ?1").bind(tenantId).run();

const made = (properties: Record<string, string>) => theCrm().edit(null, properties) as Promise<Json>;

it("a contact with the id that a contact from the CRM would get is unchanged: the contact from the CRM gets another id", async () => {
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
  // One of them has its own record, and the other has no record yet.
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

it("a record of another CRM account is another contact, although the record's id is the same", async () => {
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

it("a person that is recorded as another contact gets one record when it is created in the CRM, and the record belongs to the other contact", async () => {
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

it("a record that is deleted and recreated at once belongs to the same contact, for any order of the webhooks", async () => {
  for (const first of ["deletion", "creation", "a creation whose lookup was lost"]) {
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
    if (first.endsWith("lost")) {
      await takeChange(call);
      await dies(caller);
    }
    for (const [index, notice] of notices.entries()) {
      await notify(caller.tenantId, [notice]);
      await looked(caller, index + 1);
    }
    expect(await linkOf(caller, "c0000"), first).toMatchObject({ state: "linked", crm_id: again.id });
    // A property that only the earlier record had is not cleared in the engine: it is sent again.
    expect((await contactOf(caller, "c0000")).properties, first).toEqual({ phone: "5" });
    await synced(caller);
    expect((await recordsOf(caller)).get("c0000"), first).toMatchObject({ id: again.id, properties: { phone: "5" } });
    expect((await caller.get("/v1/contacts")).body.items, first).toHaveLength(1);
  }
});

/** A contact with a record that a user deleted, and recreated with another value; and a read that named it, with a lost response. */
async function namedAndLost(wasThere: boolean) {
  const caller = await callerWith();
  const tenantId = caller.tenantId;
  await bring(
    caller,
    people(caller, 1).map((row) => ({ ...row, properties: { jobtitle: "ours" } })),
  );
  if (wasThere) {
    await synced(caller);
    const old = (await recordsOf(caller)).get("c0000") as Json;
    await theCrm().edit(old.id, null);
    await notify(tenantId, [event(old.id, DELETION)]);
    await looked(caller, 1);
  }
  const again = await made({ email: `c0000@${tenantId}.example.com`, jobtitle: "theirs" });
  await theCrm().setFaults([{ match: `${tenantId}/c0000`, status: 503, remaining: 1, afterEffect: true }]);
  const notice = { crm_id: again.id, event_id: fresh("e"), occurred_at: new Date().toISOString(), merged: [] };
  const call = { env, envelope: { tenant_id: tenantId } as Envelope, instanceId: fresh("look"), notice };
  await expect(takeChange(call)).rejects.toThrow();
  expect((await recordsOf(caller)).get("c0000")).toMatchObject({ id: again.id, properties: { jobtitle: "theirs" } });
  const sides = async () => [
    (await contactOf(caller, "c0000")).properties.jobtitle,
    (await recordsOf(caller)).get("c0000")?.properties.jobtitle,
  ];
  return { caller, again, call, sides };
}

it("a record to which a read gave the engine's name, with a lost response, is not written before the read has the user's changes", async () => {
  for (const wasThere of [true, false]) {
    const { caller, again, call, sides } = await namedAndLost(wasThere);
    const waits = await command(caller, "contact.sync", { contact_id: "c0000", occasion: fresh("o") });
    await scheduler.wait(300);
    expect(await sides()).toEqual(["ours", "theirs"]);
    const { statements = [], output } = await takeChange(call);
    expect(output).toMatchObject({ did: "took", properties: ["jobtitle"] });
    await atomically(env.DB, statements);
    await ended(caller, waits);
    expect(await sides()).toEqual(["theirs", "theirs"]);
    expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked", crm_id: again.id, pending: false });
  }
});

it("after a read of a CRM record dies, the next sync of the contact finds the record by the engine's name, and imports the user's changes", async () => {
  for (const wasThere of [true, false]) {
    const { caller, again, sides } = await namedAndLost(wasThere);
    await dies(caller);
    await ended(caller, await command(caller, "contact.sync", { contact_id: "c0000", occasion: fresh("o") }));
    expect(await sides()).toEqual(["theirs", "theirs"]);
    expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked", crm_id: again.id, pending: false });
  }
});

it("a read of a CRM record that is deleted, or whose name the CRM refuses, delays no other read", async () => {
  const { caller, again, call } = await namedAndLost(false);
  await theCrm().edit(again.id, null);
  const { statements = [], output } = await takeChange(call);
  expect(output).toMatchObject({ did: "left" });
  await atomically(env.DB, statements);
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, failed: 0 });

  const other = await callerWith();
  await bring(other, people(other, 1));
  const record = await made({ email: `c0000@${other.tenantId}.example.com` });
  await theCrm().setFaults([{ match: `${other.tenantId}/c0000`, status: 400, remaining: 1 }]);
  const instanceId = fresh("look");
  const refused = takeChange({
    ...call,
    instanceId,
    envelope: { tenant_id: other.tenantId } as Envelope,
    notice: { ...call.notice, crm_id: record.id },
  });
  await expect(refused).rejects.toThrow("refused to give the record");
  await theCrm().edit(record.id, null);
  expect((await synced(other)).contacts).toMatchObject({ done: 1, failed: 0 });
});

it("of two concurrent reads of a new CRM record, one repeats its call if its data is older or if it runs during the other's write", async () => {
  for (const isWritten of [true, false]) {
    const caller = await callerWith();
    const [first, second] = people(caller, 2) as [Json, Json];
    // Two contacts have its e-mail address: the record is to become the record of one of them, and to remain it.
    await bring(caller, [first, { ...second, email: first.email }] as never);
    const record = await made({ email: first.email, jobtitle: "Pilot" });
    const notice = { crm_id: record.id, occurred_at: new Date().toISOString(), merged: [] };
    const look = (over: Cloudflare.Env, event_id = fresh("e")) =>
      takeChange({
        env: over,
        envelope: { tenant_id: caller.tenantId } as Envelope,
        instanceId: event_id,
        notice: { ...notice, event_id },
      });
    const write = async (commit: Awaited<ReturnType<typeof look>>) => atomically(env.DB, commit.statements ?? []);
    let other: ReturnType<typeof look> | undefined;
    const fetch = async (request: Request) => {
      const answer = await env.EMBEDDED_CRM.fetch(request);
      if (!other) {
        other = look(env);
        const commit = await other;
        if (isWritten) await write(commit);
      }
      return answer;
    };
    const late = look({ ...env, EMBEDDED_CRM: { ...env.EMBEDDED_CRM, fetch } } as unknown as Cloudflare.Env);
    if (!isWritten) {
      await scheduler.wait(500);
      await write(await (other as ReturnType<typeof look>));
    }
    await write(await late);
    expect((await caller.get("/v1/contacts")).body.items, String(isWritten)).toHaveLength(2);
    expect(await linkOf(caller, "c0000"), String(isWritten)).toMatchObject({ state: "linked", crm_id: record.id, error: null });
    expect([...(await recordsOf(caller)).keys()], String(isWritten)).toEqual(["c0000"]);
    expect(await linkOf(caller, "c0001"), String(isWritten)).toMatchObject({ crm_id: null });
  }
});

it("a CRM record with an engine's name that is not a contact's id is ignored", async () => {
  const caller = await callerWith();
  for (const id of ["", "x".repeat(201), "x\u0001"]) {
    const record = await made({ email: `j${id.length}@${caller.tenantId}.example.com`, millrace_id: `${caller.tenantId}/${id}` });
    await notify(caller.tenantId, [event(record.id, CREATION)]);
  }
  expect(await looked(caller, 3)).toMatchObject([{ did: "left" }, { did: "left" }, { did: "left" }]);
  expect((await caller.get("/v1/contacts")).body.items).toEqual([]);
});
