import { env } from "cloudflare:workers";
import { atomically, type Envelope } from "millrace";
import { expect, it } from "vitest";
import { takeChange } from "../../../src/systems/crm/change.ts";
import { syncChunk } from "../../../src/systems/crm/chunk.ts";
import { beginSend } from "../../../src/systems/crm/sends.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, until } from "../../api/client.ts";
import { adopt, moves, vars } from "./accounts.ts";
import {
  bring,
  callsSince,
  command,
  contactOf,
  ended,
  event,
  lastCall,
  linkOf,
  looks,
  merge,
  notify,
  people,
  recordsOf,
  synced,
  theCrm,
} from "./crm.ts";

/** A tenant with this number of contacts that are already in the CRM. */
async function inStep(count: number) {
  const caller = await callerWith();
  const rows = people(caller, count);
  await bring(caller, rows);
  await synced(caller);
  return {
    caller,
    change: (properties: object) =>
      bring(
        caller,
        rows.map((row) => ({ ...row, properties: { ...properties } })),
      ),
  };
}

async function stopped(caller: Caller, type: string, payload: object): Promise<{ id: string; error: Json }> {
  const id = await command(caller, type, payload);
  return { id, error: await ended(caller, id, "errored") };
}

it("a sync that finds another CRM account than the links' sends nothing and names the command to run; after that all contacts are sent to the new account", async () => {
  const { caller, change } = await inStep(3);
  const before = await linkOf(caller, "c0000");
  const account = await moves();
  await change({ jobtitle: "Pilot" });
  const sync = fresh("s");
  const { id, error } = await stopped(caller, "contacts.sync", { sync_id: sync });
  expect(error).toMatchObject({ code: "not_retryable" });
  expect(error.message).toContain("of the CRM account embedded/4224001");
  const { body } = await caller.get(`/v1/crm/syncs/${sync}`);
  expect(body).toMatchObject({
    sync_id: sync,
    scope: "changed",
    state: "errored",
    instance_id: id,
    chunks: 0,
    error: { message: error.message },
  });
  expect((await caller.get(`/v1/crm/syncs/${sync}/failures`)).body.items).toEqual([]);
  expect(error.message).toContain(`{"type":"crm.adopt_account","payload":{"account":"${account}",`);
  expect((await stopped(caller, "contact.sync", { contact_id: "c0000", occasion: "1" })).error.message).toContain("crm.adopt_account");
  expect(await theCrm().callReport()).toMatchObject({ total: 0 });
  expect(await linkOf(caller, "c0000")).toMatchObject({ crm_id: before.crm_id, state: "linked", synced_revision: 1 });

  await reaches(caller, await adopt(caller, account), "complete");
  expect(await linkOf(caller, "c0000")).toMatchObject({ crm_id: null, state: "none", pending: true });
  expect((await caller.post(`/v1/instances/${id}/retry`, { reason: "adopted" })).status).toBe(202);
  await reaches(caller, id, "complete");
  expect((await caller.get(`/v1/crm/syncs/${sync}`)).body.contacts).toMatchObject({ done: 3, failed: 0 });
  expect([...(await recordsOf(caller)).keys()].sort()).toEqual(["c0000", "c0001", "c0002"]);
});

it("an account that already has the contacts is searched by the engine's names first, so that users' changes and merges in it apply", async () => {
  const { caller, change } = await inStep(2);
  const before = await recordsOf(caller);
  await theCrm().edit(before.get("c0000")?.id, { jobtitle: "theirs" });
  await reaches(caller, await adopt(caller, await moves()), "complete");
  await change({ jobtitle: "ours", city: "Oslo" });
  await synced(caller);
  await merge(caller, "c0001", "c0000");
  await until(
    () => linkOf(caller, "c0001"),
    ({ state }) => state === "merged",
  );

  delete vars.CRM_ACCOUNT;
  await reaches(caller, await adopt(caller, "embedded/4224001"), "complete");
  expect(await linkOf(caller, "c0000")).toMatchObject({ crm_id: null, state: "none", synced_revision: 0, pending: true, error: null });
  const since = await lastCall();
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, merged: 1, taken: 1, failed: 0 });
  expect(await callsSince(since)).toEqual(["batch/read 2", "batch/upsert 1", "contacts/merge 0"]);
  const after = await recordsOf(caller);
  expect([...after.keys()]).toEqual(["c0000"]);
  expect(after.get("c0000")?.properties).toMatchObject({ jobtitle: "theirs", city: "Oslo" });
  expect(await contactOf(caller, "c0000")).toMatchObject({ properties: { jobtitle: "theirs", city: "Oslo" } });
});

it("an open push to a CRM account is looked up in that account when it becomes the deployment's again", async () => {
  const caller = await callerWith();
  const { tenantId } = caller;
  await bring(caller, people(caller, 1));
  const instanceId = crypto.randomUUID().replaceAll("-", "");
  const call = { env, envelope: { tenant_id: tenantId } as Envelope, instanceId, syncId: instanceId, scope: "changed" } as const;
  await syncChunk(call, { after: "", waiting: 0, mayCut: false });
  await theCrm().edit((await recordsOf(caller)).get("c0000")?.id, { firstname: "Theirs" });
  await reaches(caller, await adopt(caller, await moves()), "complete");
  delete vars.CRM_ACCOUNT;
  await reaches(caller, await adopt(caller, "embedded/4224001"), "complete");
  expect((await synced(caller)).contacts).toMatchObject({ taken: 1, failed: 0 });
  expect((await contactOf(caller, "c0000")).name).toBe("Theirs c0000");
});

it("another CRM account's webhook about a record is not applied to a record with the same id, and is read once the account is adopted", async () => {
  const { caller } = await inStep(1);
  const account = await moves();
  const record = (await theCrm().edit(null, { email: `new@${caller.tenantId}.example.com`, firstname: "New" })) as Json;
  const links = env.DB.prepare("UPDATE crm_links SET crm_id = ?1 WHERE tenant_id = ?2");
  await links.bind(record.id, caller.tenantId).run();
  const told = event(record.id, { portalId: Number(vars.CRM_ACCOUNT), propertyName: "firstname", propertyValue: "New" });
  expect((await notify(caller.tenantId, [told], { vars: { CRM_ACCOUNT: vars.CRM_ACCOUNT } })).body).toMatchObject({ accepted: 1 });
  const [look] = await until(
    () => looks(caller),
    ([one]) => one?.status === "errored",
  );
  expect(await linkOf(caller, "c0000")).toMatchObject({ error: null });

  await reaches(caller, await adopt(caller, account), "complete");
  await caller.post(`/v1/instances/${look?.id}/retry`, { reason: "adopted" });
  expect(await ended(caller, look?.id)).toMatchObject({ did: "created" });
  expect(await contactOf(caller, `crm-${vars.CRM_ACCOUNT}-${record.id}`)).toMatchObject({ name: "New" });
  expect((await contactOf(caller, "c0000")).name).toBe("Person c0000");
});

it("an open push or read of a CRM account is not recorded once another account is adopted, and starts nothing more", async () => {
  const { caller, change } = await inStep(1);
  const { tenantId } = caller;
  await change({ jobtitle: "Pilot" });
  const of = { env, envelope: { tenant_id: tenantId } as Envelope };
  const made = (await theCrm().edit(null, { email: `new@${tenantId}.example.com` })) as Json;
  const notice = { crm_id: made.id, event_id: fresh("e"), occurred_at: new Date().toISOString(), merged: [] };
  const look = await takeChange({ ...of, instanceId: fresh("look"), notice });
  const [instanceId, syncId] = [crypto.randomUUID().replaceAll("-", ""), fresh("s")];
  const chunk = await syncChunk({ ...of, instanceId, syncId, scope: "changed" }, { after: "", waiting: 0, mayCut: false });

  await reaches(caller, await adopt(caller, await moves()), "complete");
  for (const late of [look, chunk]) await expect(atomically(env.DB, late.statements ?? [])).rejects.toThrow(/contact_changed_meanwhile/);
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "none", crm_id: null });
  const before = { id: "embedded/4224001", isNew: false };
  expect(await beginSend(env.DB, { tenantId, sendId: fresh("late") }, before, [])).toEqual({ busyUntil: 0 });
});

it("only an operator can adopt a CRM account, and only the deployment's own; the current account is unchanged", async () => {
  const { caller } = await inStep(1);
  const worker = await callerWith(["enqueue", "read"], caller.tenantId);
  const payload = { account: "embedded/4224001", occasion: "1" };
  expectProblem(await worker.post("/v1/commands", { type: "crm.adopt_account", payload }), 403, "forbidden");
  expect((await stopped(caller, "crm.adopt_account", { account: "62515", occasion: "1" })).error.message).toContain(
    "is embedded/4224001, not 62515",
  );
  await reaches(caller, await command(caller, "crm.adopt_account", payload), "complete");
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked", pending: false });
});

it("a chunk whose CRM records are mostly missing waits until an operator has confirmed their deletion, and asks once", async () => {
  const { caller, change } = await inStep(30);
  for (const { id } of (await recordsOf(caller)).values()) if (Number(id) % 2 === 0) await theCrm().edit(id, null);
  await change({ jobtitle: "Pilot" });
  for (const [answer, state] of [
    ["reject", "errored"],
    ["approve", "complete"],
  ] as const) {
    const sync = fresh("s");
    const instance = await command(caller, "contacts.sync", { sync_id: sync });
    const asked = async () => (await caller.get("/v1/approvals?state=pending")).body.items as Json[];
    const [question] = await until(asked, ({ length }) => length > 0);
    expect(question).toMatchObject({ question: expect.stringContaining(`15 of 30 records that the sync “${sync}”`) });
    expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked", pending: true });
    expect((await caller.post(`/v1/approvals/${question?.id}/${answer}`, { reason: "asked the team" })).status).toBe(202);
    await reaches(caller, instance, state);
  }
  const { body } = await caller.get("/v1/crm/links?limit=100");
  expect(Map.groupBy(body.items as Json[], ({ state }) => state).get("cut")).toHaveLength(15);
  expect((await recordsOf(caller)).size).toBe(15);
});

it("the contacts of a chunk with missing records are free until the operator answers, also when an earlier attempt had them open", async () => {
  const { caller, change } = await inStep(30);
  const { tenantId } = caller;
  await change({ jobtitle: "Pilot" });
  const instanceId = crypto.randomUUID().replaceAll("-", "");
  const call = { env, envelope: { tenant_id: tenantId } as Envelope, instanceId, syncId: instanceId, scope: "changed" } as const;
  const attempt = () => syncChunk(call, { after: "", waiting: 0, mayCut: false });
  await theCrm().setFaults([{ match: `${tenantId}/c0000`, status: 503, remaining: 1, afterEffect: true }]);
  await expect(attempt()).rejects.toThrow();
  for (const { id } of (await recordsOf(caller)).values()) if (Number(id) % 2 === 0) await theCrm().edit(id, null);
  const { statements = [], output } = await attempt();
  expect(output).toMatchObject({ lost: { gone: 15 } });
  await atomically(env.DB, statements);
  const [kept = ""] = (await recordsOf(caller)).keys();
  await ended(caller, await command(caller, "contact.sync", { contact_id: kept, occasion: fresh("o") }));
  // The attempt's write is the engine's, and not a user's change.
  expect(await linkOf(caller, kept)).toMatchObject({ state: "linked", pending: false, revision: 2 });
});

it("a few records that were deleted in the CRM cause no question", async () => {
  const { caller, change } = await inStep(12);
  for (const contact of ["c0000", "c0001", "c0002", "c0003", "c0004"])
    await theCrm().edit((await recordsOf(caller)).get(contact)?.id ?? "", null);
  await change({ jobtitle: "Pilot" });
  expect((await synced(caller)).contacts).toMatchObject({ done: 7, skipped: 5 });
});
