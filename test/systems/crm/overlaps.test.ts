import { env } from "cloudflare:workers";
import { atomically, type Envelope } from "millrace";
import { expect, it, onTestFinished, vi } from "vitest";
import type { StepOptions } from "../../../packages/millrace/src/workflow/steps.ts";
import { takeChange } from "../../../src/systems/crm/change.ts";
import { syncChunk } from "../../../src/systems/crm/chunk.ts";
import { candidatesByIds } from "../../../src/systems/crm/links.ts";
import { lookAtOne } from "../../../src/systems/crm/one.ts";
import { beginSend, endSend, type SendKey, sentBefore } from "../../../src/systems/crm/sends.ts";
import { forgetContact } from "../../../src/workflows/forget-contact.ts";
import { syncContact } from "../../../src/workflows/sync-contact.ts";
import { syncContacts } from "../../../src/workflows/sync-contacts.ts";
import { takeCrmChange } from "../../../src/workflows/take-crm-change.ts";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import { bring, command, contactOf, ended, event, linkOf, looked, merge, notify, people, recordsOf, synced, theCrm } from "./crm.ts";

/** A tenant with one contact that is already in the CRM. */
async function inStep() {
  const caller = await callerWith();
  const [row] = people(caller, 1) as [Json];
  await bring(caller, [row as never]);
  await synced(caller);
  const id: string = (await recordsOf(caller)).get("c0000")?.id ?? "";
  return { caller, id, change: (properties: object) => bring(caller, [{ ...row, properties } as never]) };
}

const of = (caller: Caller) => ({ env, envelope: { tenant_id: caller.tenantId } as Envelope });
const notice = (id: string) => ({ crm_id: id, event_id: fresh("e"), occurred_at: new Date().toISOString(), merged: [] });

/** A chunk that has called the CRM, and has an open write. */
function chunkOf(caller: Caller, over = env) {
  const instanceId = crypto.randomUUID().replaceAll("-", "");
  return syncChunk(
    { ...of(caller), env: over, instanceId, syncId: instanceId, scope: "changed" },
    { after: "", waiting: 0, mayCut: false },
  );
}

/** The deployment, with a list of its calls to the CRM. */
function listening() {
  const asked: string[] = [];
  const fetch = (request: Request) => {
    asked.push(request.url.split("/").slice(-2).join("/"));
    return env.EMBEDDED_CRM.fetch(request);
  };
  return { asked, over: { ...env, EMBEDDED_CRM: { ...env.EMBEDDED_CRM, fetch } } as unknown as Cloudflare.Env };
}

/** Both sides of one property. */
async function sides(caller: Caller, property: string) {
  const [here, there] = [(await contactOf(caller, "c0000")).properties, (await recordsOf(caller)).get("c0000")?.properties];
  return [here[property] ?? "", there[property] ?? ""];
}

const REFUSED = /contact_changed_meanwhile/;

it("a contact in a running chunk of a CRM sync is pushed by no other caller, and later changes are sent after the chunk", async () => {
  const { caller, change } = await inStep();
  await change({ phone: "+1" });
  const older = await chunkOf(caller);
  await change({ phone: "+2" });
  const waits = await command(caller, "contact.sync", { contact_id: "c0000", occasion: fresh("o") });
  await scheduler.wait(300);
  expect(await sides(caller, "phone")).toEqual(["+2", "+1"]);
  await atomically(env.DB, older.statements ?? []);
  await ended(caller, waits);
  expect(await sides(caller, "phone")).toEqual(["+2", "+2"]);
  expect(await linkOf(caller, "c0000")).toMatchObject({ revision: 3, synced_revision: 3, pending: false });
});

it.each<[string, (caller: Caller, over: Cloudflare.Env) => Promise<unknown>]>([
  ["a sync of many contacts", chunkOf],
  ["a sync of one contact", (caller, over) => lookAtOne({ ...of(caller), env: over, instanceId: fresh("one"), contactId: "c0000" })],
])("%s that waits for a contact of another push sends no request to the CRM", async (_, push) => {
  const { caller, change } = await inStep();
  await change({ phone: "+1" });
  const older = await chunkOf(caller);
  await change({ phone: "+2" });
  const { asked, over } = listening();
  const waiting = push(caller, over);
  await scheduler.wait(300);
  expect(asked).toEqual([]);
  await atomically(env.DB, older.statements ?? []);
  await waiting;
  expect(asked).toContain("batch/read");
});

it("a read of a new record during another read makes no request to the CRM", async () => {
  const caller = await callerWith();
  const made = (await theCrm().edit(null, { email: `made@${caller.tenantId}.example.com` })) as Json;
  const look = (over = env) => takeChange({ ...of(caller), env: over, instanceId: fresh("look"), notice: notice(made.id) });
  const older = await look();
  const { asked, over } = listening();
  const waiting = look(over);
  await scheduler.wait(300);
  expect(asked).toEqual([]);
  await atomically(env.DB, older.statements ?? []);
  await waiting;
  expect(asked).toContain("batch/read");
});

it("an aborted push to the CRM writes nothing, and its change is not mistaken for a user's", async () => {
  const { caller, change } = await inStep();
  await change({ phone: "+1" });
  const dead = await chunkOf(caller);
  await env.DB.prepare("UPDATE crm_sends SET until = 0 WHERE tenant_id = ?1").bind(caller.tenantId).run();
  await change({ phone: "+2" });
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, taken: 0 });
  expect(await sides(caller, "phone")).toEqual(["+2", "+2"]);
  await expect(atomically(env.DB, dead.statements ?? [])).rejects.toThrow(REFUSED);
  expect(await linkOf(caller, "c0000")).toMatchObject({ pending: false });
});

it("a user's value is imported for a contact after an aborted push", async () => {
  const { caller, id, change } = await inStep();
  await change({ phone: "+1" });
  await chunkOf(caller);
  await env.DB.prepare("UPDATE crm_sends SET until = 0 WHERE tenant_id = ?1").bind(caller.tenantId).run();
  await theCrm().edit(id, { phone: "+9" });
  expect((await synced(caller)).contacts).toMatchObject({ taken: 1 });
  expect(await sides(caller, "phone")).toEqual(["+9", "+9"]);
});

it("a value that a user restores while the chunk that overwrote it is being recorded is read", async () => {
  const { caller, id, change } = await inStep();
  await change({ phone: "+2" });
  const chunk = await chunkOf(caller);
  await theCrm().edit(id, { phone: "" });
  expect((await notify(caller.tenantId, [event(id, { propertyName: "phone", propertyValue: "" })])).body).toMatchObject({ accepted: 1 });
  await atomically(env.DB, chunk.statements ?? []);
  await looked(caller, 1);
  await synced(caller);
  expect(await sides(caller, "phone")).toEqual(["", ""]);
});

it("a value that a user restores while a read of it is being recorded is read again", async () => {
  const { caller, id } = await inStep();
  await theCrm().edit(id, { phone: "+1" });
  const look = await takeChange({ ...of(caller), instanceId: fresh("look"), notice: notice(id) });
  await theCrm().edit(id, { phone: "" });
  expect((await notify(caller.tenantId, [event(id, { propertyName: "phone", propertyValue: "" })])).body).toMatchObject({ accepted: 1 });
  await atomically(env.DB, look.statements ?? []);
  await looked(caller, 1);
  expect(await sides(caller, "phone")).toEqual(["", ""]);
});

it("a late write of a CRM read from before a record's deletion does not link the contact to that record again", async () => {
  const { caller, id } = await inStep();
  await theCrm().edit(id, { phone: "+1" });
  const late = await takeChange({ ...of(caller), instanceId: fresh("look"), notice: notice(id) });
  await theCrm().edit(id, null);
  const gone = await takeChange({ ...of(caller), instanceId: fresh("look"), notice: notice(id) });
  await atomically(env.DB, gone.statements ?? []);
  await expect(atomically(env.DB, late.statements ?? [])).rejects.toThrow(REFUSED);
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "cut", crm_id: null });
});

it("two contacts that are merged while a chunk pushes both have one record at the end, without another sync", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 2));
  const chunk = await chunkOf(caller);
  await merge(caller, "c0000", "c0001");
  await until(
    async () => (await caller.get("/v1/instances?workflow=sync-contact")).body.items as Json[],
    ({ length }) => length > 0,
  );
  await atomically(env.DB, chunk.statements ?? []);
  await until(
    () => linkOf(caller, "c0000"),
    ({ state }) => state === "merged",
  );
  expect([...(await recordsOf(caller)).keys()]).toEqual(["c0001"]);
});

it("a contact that a file changed while a read was being recorded is sent", async () => {
  const { caller, id, change } = await inStep();
  await theCrm().edit(id, { city: "Oslo" });
  const look = await takeChange({ ...of(caller), instanceId: fresh("look"), notice: notice(id) });
  await change({ city: "Oslo", jobtitle: "Pilot" });
  await atomically(env.DB, look.statements ?? []);
  expect(await linkOf(caller, "c0000")).toMatchObject({ pending: true });
  await synced(caller);
  expect(await sides(caller, "jobtitle")).toEqual(["Pilot", "Pilot"]);
});

it("a change by another app in the CRM is imported", async () => {
  const { caller, id } = await inStep();
  await theCrm().edit(id, { city: "Oslo" });
  const other = event(id, { propertyName: "city", propertyValue: "Oslo", changeSource: "INTEGRATION", sourceId: "999", appId: 1160452 });
  expect((await notify(caller.tenantId, [other])).body).toMatchObject({ accepted: 1 });
  expect(await looked(caller, 1)).toMatchObject([{ did: "took", properties: ["city"] }]);
});

it("two CRM pushes that each hold a contact which the other needs both complete, because one releases its contact", async () => {
  const { caller, change } = await inStep();
  await bring(caller, people(caller, 2).slice(1));
  await change({ phone: "+1" });
  const { tenantId } = caller;
  const [first, second] = ["a", "b"].map((name) => ({ tenantId, sendId: `${name}${fresh("push")}` })) as [SendKey, SendKey];
  const { account } = await sentBefore(env, first);
  const asks = async (key: SendKey, ...ids: string[]) => {
    const found = await candidatesByIds(env.DB, tenantId, ids);
    const contacts = found.map(({ contact, link }) => ({
      id: contact.contact_id,
      version: link?.version ?? 0,
      sent: [{ phone: key.sendId }],
    }));
    return (await beginSend(env.DB, key, account, contacts)) ? "waits" : "has them";
  };
  // Both pushes were deferred, keep their possible writes, and include another contact now.
  expect([await asks(first, "c0000"), await asks(second, "c0001")]).toEqual(["has them", "has them"]);
  expect(await asks(first, "c0000", "c0001")).toBe("waits");
  expect(await asks(second, "c0001", "c0000")).toBe("waits");
  expect(await asks(first, "c0000", "c0001")).toBe("has them");
  const [kept] = await candidatesByIds(env.DB, tenantId, ["c0001"]);
  expect(kept?.link).toMatchObject({ maybe: [{ phone: second.sendId }], revision: 0 });
  expect(await asks(second, "c0001", "c0000")).toBe("waits");
  await atomically(env.DB, endSend(first, []));
  expect(await asks(second, "c0001", "c0000")).toBe("has them");
});

it("a CRM call that waits for a contact is retried with growing delays, for longer than another call can hold the contact", async () => {
  const { caller, id, change } = await inStep();
  await change({ phone: "+1" });
  await chunkOf(caller);
  const clock = vi.spyOn(Date, "now");
  onTestFinished(() => clock.mockRestore());
  const begun = Date.now();
  clock.mockImplementation(() => begun + 15_000 * clock.mock.calls.length);
  const refusal = await takeChange({ ...of(caller), instanceId: fresh("look"), notice: notice(id) }).catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: "retry_after", detail: {} });
  expect(refusal).not.toHaveProperty("detail.delayMs");
  for (const [workflow, holds] of [
    [takeCrmChange, 8],
    [syncContact, 6],
    [syncContacts, 10],
    [forgetContact, 5],
  ] as const) {
    const asked = Promise.withResolvers<StepOptions>();
    const commit = async (_name: string, _make: unknown, options: StepOptions) => {
      asked.resolve(options);
      throw new Error("Enough.");
    };
    const run = { payload: {}, step: { commit }, env, envelope: of(caller).envelope, instanceId: fresh("i") };
    await (workflow.run as (call: unknown) => Promise<unknown>)(run).catch(() => undefined);
    const { limit = 0, delay = 0 } = (await asked.promise).retries ?? {};
    const pauses = Array.from({ length: limit }, (_, attempt) => Math.min(Number.parseInt(String(delay), 10) * 2 ** attempt, 3600));
    expect(
      pauses.reduce((sum, pause) => sum + pause, 0),
      workflow.name,
    ).toBeGreaterThan(holds * 6 * 60);
  }
});
