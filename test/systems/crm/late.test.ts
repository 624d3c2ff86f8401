import { env } from "cloudflare:workers";
import { atomically, type Commit, type Envelope, type Steps } from "millrace";
import { afterEach, expect, it, vi } from "vitest";
import { CRM_FRESH_MS } from "../../../src/providers/index.ts";
import { takeChange } from "../../../src/systems/crm/change.ts";
import { syncChunk } from "../../../src/systems/crm/chunk.ts";
import { syncContact } from "../../../src/workflows/sync-contact.ts";
import { type Caller, callerWith, fresh, type Json } from "../../api/client.ts";
import { bring, contactOf, linkOf, people, type Row, recordsOf, synced, theCrm } from "./crm.ts";

afterEach(() => theCrm().setFaults([]));

/** A tenant with contacts that are already in the CRM. */
async function inStep(count = 1, name = "Gina Gold") {
  const caller = await callerWith();
  const rows = people(caller, count, 100).map((row) => ({ ...row, name }));
  await bring(caller, rows);
  await synced(caller);
  const id: string = (await recordsOf(caller)).get("c0100")?.id ?? "";
  const change = (properties: object, of = rows) =>
    bring(
      caller,
      of.map((row) => ({ ...row, properties: { ...properties } })),
    );
  return { caller, rows, id, change };
}

/** The deployment, with a function that runs before each upsert. */
function upserting(meanwhile: () => Promise<unknown>): Cloudflare.Env {
  const fetch = async (request: Request) => {
    if (request.url.endsWith("/upsert")) await meanwhile();
    return env.EMBEDDED_CRM.fetch(request);
  };
  return { ...env, EMBEDDED_CRM: { ...env.EMBEDDED_CRM, fetch } } as unknown as Cloudflare.Env;
}

/** The attempts of one chunk's step. */
function attemptsOf({ tenantId }: Caller, over = env) {
  const instanceId = crypto.randomUUID().replaceAll("-", "");
  const call = { env: over, envelope: { tenant_id: tenantId } as Envelope, instanceId, syncId: instanceId, scope: "changed" } as const;
  return () => syncChunk(call, { after: "", waiting: 0, mayCut: false });
}

/** One property on both sides. */
async function sides(caller: Caller, contact: string, property: string) {
  const here: Json = (await contactOf(caller, contact)).properties;
  return [here[property] ?? "", (await recordsOf(caller)).get(contact)?.properties[property] ?? ""];
}

/** Both sides have the contact with its last imported values. */
async function isWhole(caller: Caller) {
  const whole = { email: `c0100@${caller.tenantId}.example.com`, firstname: "Gina", lastname: "Gold", phone: "2" };
  expect((await recordsOf(caller)).get("c0100")?.properties).toMatchObject(whole);
  expect(await contactOf(caller, "c0100")).toMatchObject({ name: "Gina Gold", revision: 2 });
  expect(await linkOf(caller, "c0100")).toMatchObject({ state: "linked", pending: false });
}

it("a late write of an attempt, for a contact that the next attempt does not include, is not mistaken for a user's", async () => {
  const { caller, rows, change } = await inStep(100);
  await change({ phone: "2" });
  await theCrm().setFaults([{ match: `${caller.tenantId}/c0199`, status: 503, remaining: 1, afterEffect: true }]);
  const attempt = attemptsOf(caller);
  await expect(attempt()).rejects.toThrow();
  await bring(caller, people(caller, 3));
  await change({ phone: "3" }, rows.slice(-3));
  await atomically(env.DB, (await attempt()).statements ?? []);
  expect(await sides(caller, "c0199", "phone")).toEqual(["3", "2"]);
  expect((await synced(caller)).contacts).toMatchObject({ done: 3, taken: 0, failed: 0 });
  expect(await sides(caller, "c0199", "phone")).toEqual(["3", "3"]);
});

/** Makes the CRM defer the upsert of a contact.sync once, and runs a function before the call is repeated. */
async function putOff(caller: Caller, afterEffect: boolean, meanwhile: () => Promise<unknown>): Promise<void> {
  await theCrm().setFaults([{ match: `${caller.tenantId}/c0100`, status: 503, remaining: 1, afterEffect }]);
  await syncOne(caller, env, meanwhile);
}

/** Syncs one contact. A failed call is repeated long after the read. */
async function syncOne({ tenantId }: Caller, over: Cloudflare.Env, meanwhile?: () => Promise<unknown>): Promise<void> {
  const instanceId = crypto.randomUUID().replaceAll("-", "");
  const commit = async (_name: string, make: () => Promise<Commit<object>>) => {
    const { statements = [], output } = await make().catch(async (error) => {
      if (!meanwhile) throw error;
      await meanwhile();
      const clock = vi.spyOn(Date, "now").mockReturnValueOnce(Date.now() + 60_000);
      const again = make();
      clock.mockRestore();
      return again;
    });
    await atomically(env.DB, statements);
    return output;
  };
  const payload = { contact_id: "c0100", occasion: instanceId };
  const envelope = { tenant_id: tenantId } as Envelope;
  await syncContact.run({
    payload,
    step: { commit } as unknown as Steps,
    env: over,
    envelope,
    instanceId,
    deployment: { signalled: new Set() },
  });
}

it("a value that a user sets while a contact.sync is deferred is imported", async () => {
  const { caller, id, change } = await inStep();
  await change({ phone: "2", city: "Oslo" });
  await putOff(caller, false, () => theCrm().edit(id, { phone: "theirs" }));
  expect(await sides(caller, "c0100", "phone")).toEqual(["theirs", "theirs"]);
  expect(await sides(caller, "c0100", "city")).toEqual(["Oslo", "Oslo"]);
});

it("a write of a contact.sync before its call was deferred is not mistaken for a user's, and later changes are sent with the next sync", async () => {
  const { caller, change } = await inStep();
  await change({ phone: "2" });
  await putOff(caller, true, () => change({ phone: "3" }));
  expect(await sides(caller, "c0100", "phone")).toEqual(["3", "3"]);
  expect(await linkOf(caller, "c0100")).toMatchObject({ revision: 3, pending: false });
});

it("a record that a user deletes while a contact.sync is deferred, or just before its call, is recreated completely", async () => {
  for (const afterEffect of [false, true]) {
    const { caller, id, change } = await inStep();
    await change({ phone: "2" });
    await putOff(caller, afterEffect, () => theCrm().edit(id, null));
    await isWhole(caller);
  }
  const { caller, id, change } = await inStep();
  await change({ phone: "2" });
  let deleted = false;
  const once = upserting(async () => {
    if (!deleted) await theCrm().edit(id, null);
    deleted = true;
  });
  await syncOne(caller, once);
  await isWhole(caller);
});

it("a record that a user deletes just before a chunk's upsert is recreated and completed, and no data of the contact is lost", async () => {
  const { caller, id, change } = await inStep();
  await change({ phone: "2" });
  const late = attemptsOf(
    caller,
    upserting(() => theCrm().edit(id, null)),
  );
  const { statements = [], output } = await late();
  expect(output).toMatchObject({ waiting: 1 });
  await atomically(env.DB, statements);
  expect((await recordsOf(caller)).get("c0100")?.properties).not.toHaveProperty("firstname");
  expect(await linkOf(caller, "c0100")).toMatchObject({ state: "linked", pending: true, error: { category: "DELETED_MEANWHILE" } });
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, taken: 0, failed: 0 });
  await isWhole(caller);
});

it("a record that was recreated by an upsert with a lost response is completed by the next attempt, and not treated as deleted", async () => {
  const { caller, id, change } = await inStep();
  await change({ phone: "2" });
  await theCrm().setFaults([{ match: `${caller.tenantId}/c0100`, status: 503, remaining: 1, afterEffect: true }]);
  let isDeleted = false;
  const attempt = attemptsOf(
    caller,
    upserting(async () => {
      if (!isDeleted) await theCrm().edit(id, null);
      isDeleted = true;
    }),
  );
  await expect(attempt()).rejects.toThrow();
  expect((await recordsOf(caller)).get("c0100")?.properties).not.toHaveProperty("firstname");
  await atomically(env.DB, (await attempt()).statements ?? []);
  await isWhole(caller);
});

it("a user's changes to a record that a lost upsert created are imported, and unchanged properties remain the engine's", async () => {
  const lost = (caller: Caller) =>
    theCrm().setFaults([{ match: `"${caller.tenantId}/c0100"`, status: 503, remaining: 1, afterEffect: true }]);
  const edited = async (caller: Caller) => {
    const record = (await recordsOf(caller)).get("c0100");
    await theCrm().edit(record?.id ?? "", { phone: "theirs" });
  };
  const begun = async () => {
    const caller = await callerWith();
    const change = (city: string) =>
      bring(
        caller,
        people(caller, 1, 100).map((row) => ({ ...row, properties: { phone: "ours", city } })),
      );
    await change("Rome");
    await lost(caller);
    return { caller, change };
  };
  const isRight = async (caller: Caller) => {
    expect(await sides(caller, "c0100", "phone")).toEqual(["theirs", "theirs"]);
    expect(await sides(caller, "c0100", "city")).toEqual(["Oslo", "Oslo"]);
    expect(await linkOf(caller, "c0100")).toMatchObject({ state: "linked", pending: false });
  };
  const many = await begun();
  const attempt = attemptsOf(many.caller);
  await expect(attempt()).rejects.toThrow();
  await edited(many.caller);
  await many.change("Oslo");
  await atomically(env.DB, (await attempt()).statements ?? []);
  await isRight(many.caller);

  const one = await begun();
  await syncOne(one.caller, env, async () => {
    await edited(one.caller);
    await one.change("Oslo");
  });
  await isRight(one.caller);

  const dead = await begun();
  await expect(attemptsOf(dead.caller)()).rejects.toThrow();
  await env.DB.prepare("UPDATE crm_sends SET until = 0 WHERE tenant_id = ?1").bind(dead.caller.tenantId).run();
  await edited(dead.caller);
  await dead.change("Oslo");
  expect((await synced(dead.caller)).contacts).toMatchObject({ done: 1, taken: 1, failed: 0 });
  await isRight(dead.caller);
});

it("two parts of a name that change concurrently, one in the CRM and one in the engine, are both kept", async () => {
  const { caller, rows, id, change } = await inStep();
  await change({ phone: "2" });
  await theCrm().edit(id, { lastname: "Byron", city: "Oslo" });
  const chunk = await attemptsOf(caller)();
  await bring(caller, [{ ...(rows[0] as Row), name: "Augusta Gold" }]);
  await atomically(env.DB, chunk.statements ?? []);
  expect(await contactOf(caller, "c0100")).toMatchObject({ name: "Augusta Gold", properties: { phone: "2", city: "Oslo" } });
  await synced(caller);
  expect(await contactOf(caller, "c0100")).toMatchObject({ name: "Augusta Byron" });
  expect((await recordsOf(caller)).get("c0100")?.properties).toMatchObject({ firstname: "Augusta", lastname: "Byron", phone: "2" });
  expect(await linkOf(caller, "c0100")).toMatchObject({ pending: false });

  await theCrm().edit(id, { firstname: "Ada" });
  const look = await takeChange({
    env,
    envelope: { tenant_id: caller.tenantId } as Envelope,
    instanceId: fresh("look"),
    notice: { crm_id: id, event_id: fresh("e"), occurred_at: new Date().toISOString(), merged: [] },
  });
  await bring(caller, [{ ...(rows[0] as Row), name: "Augusta King" }]);
  await atomically(env.DB, look.statements ?? []);
  await synced(caller);
  expect(await contactOf(caller, "c0100")).toMatchObject({ name: "Ada King" });
  expect((await recordsOf(caller)).get("c0100")?.properties).toMatchObject({ firstname: "Ada", lastname: "King" });
});

it("a user's change or deletion while a chunk is searched for an invalid record is kept", async () => {
  const { caller, rows, change } = await inStep(4);
  await change({ phone: "2" });
  const records = await recordsOf(caller);
  const [fault, good, gone, theirs] = rows.map(({ contact_id: contact }) => contact) as [string, string, string, string];
  await theCrm().setFaults([{ match: "", key: `${caller.tenantId}/${fault}`, whole: true, status: 400, remaining: null }]);
  let calls = 0;
  const slow = upserting(async () => {
    if (calls++ > 0) return;
    await theCrm().edit(records.get(gone)?.id ?? "", null);
    await theCrm().edit(records.get(theirs)?.id ?? "", { phone: "theirs" });
    await scheduler.wait(CRM_FRESH_MS + 100);
  });
  const { statements = [], output } = await attemptsOf(caller, slow)();
  expect(output).toMatchObject({ waiting: 2 });
  await atomically(env.DB, statements);
  expect(await sides(caller, good, "phone")).toEqual(["2", "2"]);
  expect(await linkOf(caller, theirs)).toMatchObject({ pending: true, error: { category: "CHANGED_MEANWHILE" } });
  await theCrm().setFaults([]);
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, taken: 1, failed: 0 });
  expect(await sides(caller, theirs, "phone")).toEqual(["theirs", "theirs"]);
  expect(await linkOf(caller, gone)).toMatchObject({ state: "cut" });
  expect((await recordsOf(caller)).has(gone)).toBe(false);
});

it("a record that a call created after its lookup is read before the search for an invalid record writes to it again", async () => {
  const caller = await callerWith();
  const rows = people(caller, 2, 100).map((row) => ({ ...row, properties: { phone: "ours" } }));
  await bring(caller, rows);
  await theCrm().setFaults([{ match: `${caller.tenantId}/c0100`, status: 503, remaining: 1 }]);
  let calls = 0;
  const { tenantId } = caller;
  const slow = upserting(async () => {
    if (++calls !== 2) return;
    await theCrm().edit(null, { email: `c0100@${tenantId}.example.com`, phone: "theirs", millrace_id: `${tenantId}/c0100` });
    await scheduler.wait(CRM_FRESH_MS + 100);
  });
  const attempt = attemptsOf(caller, slow);
  await expect(attempt()).rejects.toThrow();
  await theCrm().setFaults([{ match: "", key: `${tenantId}/c0101`, whole: true, status: 400, remaining: null }]);
  await atomically(env.DB, (await attempt()).statements ?? []);
  expect(await sides(caller, "c0100", "phone")).toEqual(["ours", "theirs"]);
  await theCrm().setFaults([]);
  expect((await synced(caller)).contacts).toMatchObject({ taken: 1, failed: 0 });
  expect(await sides(caller, "c0100", "phone")).toEqual(["theirs", "theirs"]);
});
