import { env } from "cloudflare:workers";
import { atomically, type Envelope } from "millrace";
import { expect, it } from "vitest";
import { crm } from "../../../src/providers/index.ts";
import { syncChunk } from "../../../src/systems/crm/chunk.ts";
import { type Course, lookAtOne, upsertContact } from "../../../src/systems/crm/one.ts";
import { callerWith, fresh, until } from "../../api/client.ts";
import { bring, command, ended, event, known, linkOf, looked, merge, notify, people, recordsOf, synced, theCrm } from "./crm.ts";

const shownOf = async (id: string) => (await theCrm().list("contacts")).find((record) => record.id === id);

it("a contact that is recorded as another is not created in the CRM: its canonical contact is", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 5));
  await merge(caller, "c0001", "c0003");
  await merge(caller, "c0004", "c0001", "c0003");
  expect((await synced(caller)).contacts).toMatchObject({ done: 3, merged: 2 });
  expect([...(await recordsOf(caller)).keys()]).toEqual(["c0000", "c0002", "c0003"]);
  expect(await linkOf(caller, "c0004")).toMatchObject({ state: "merged", crm_id: null, pending: false });
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, merged: 0, skipped: 0 });
  // A sync by this name syncs the canonical contact.
  expect(await ended(caller, await command(caller, "contact.sync", { contact_id: "c0004", occasion: "1" }))).toMatchObject({
    contact_id: "c0003",
  });
});

it("two contacts that are merged after both exist have their CRM records merged automatically, once", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 3));
  await synced(caller);
  const before = await recordsOf(caller);
  await merge(caller, "c0000", "c0002");
  const link = await until(
    () => linkOf(caller, "c0000"),
    ({ state }) => state === "merged",
  );
  expect(link).toMatchObject({ state: "merged", crm_id: null });
  const after = await recordsOf(caller);
  expect([...after.keys()].sort()).toEqual(["c0001", "c0002"]);
  expect(await shownOf(before.get("c0000")?.id ?? "")).toMatchObject({ merged_into: expect.any(String) });
  expect(await linkOf(caller, "c0002")).toMatchObject({ state: "linked", crm_id: after.get("c0002")?.id });
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, merged: 0 });
});

it("a sync of many contacts also merges records, also when the canonical contact was never in the CRM", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 2));
  await synced(caller);
  await bring(caller, people(caller, 1, 7));
  const fact = {
    fact_id: fresh("m"),
    entity: "contacts",
    type: "contact_merged",
    occurred_at: new Date().toISOString(),
    payload: { from: "c0000", into: "c0007" },
  };
  await caller.post("/v1/facts", { facts: [fact] });
  await until(
    () => linkOf(caller, "c0000"),
    ({ state }) => state === "merged",
  );
  expect([...(await recordsOf(caller)).keys()].sort()).toEqual(["c0001", "c0007"]);
  expect(await linkOf(caller, "c0007")).toMatchObject({ state: "linked", pending: false });
});

it("a merge by a user of the CRM becomes one fact in the engine, for any number of webhooks", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 3));
  await synced(caller);
  const records = await recordsOf(caller);
  const [kept, gone] = [records.get("c0001")?.id ?? "", records.get("c0002")?.id ?? ""];
  const made = await crm(env, caller.tenantId).merge(kept, gone, { key: "by hand" });
  const result = made.state === "done" ? made.crmId : "";
  const notice = event(result, {
    subscriptionType: "contact.merge",
    propertyName: undefined,
    primaryObjectId: Number(kept),
    mergedObjectIds: [Number(gone)],
    newObjectId: Number(result),
  });
  expect((await notify(caller.tenantId, [notice])).body).toEqual({ accepted: 1, known: 0, foreign: 0, unread: 0 });
  expect((await notify(caller.tenantId, [notice])).body).toEqual({ accepted: 0, known: 1, foreign: 0, unread: 0 });
  expect(await looked(caller, 1)).toMatchObject([{ did: "merged", contact_id: "c0001" }]);
  await known(caller, "c0002", "c0001");
  expect(await linkOf(caller, "c0002")).toMatchObject({ state: "merged", crm_id: null });
  expect(await linkOf(caller, "c0001")).toMatchObject({ state: "linked", crm_id: result });
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, failed: 0 });
  expect((await recordsOf(caller)).get("c0001")).toMatchObject({ id: result });
});

it("contacts that one webhook merges, with long names of the same prefix, give one fact each", async () => {
  const caller = await callerWith();
  const ids = ["a", "b", "c"].map((one) => "x".repeat(199) + one);
  const [stays = "", ...others] = ids;
  await bring(
    caller,
    people(caller, 3).map((row, index) => ({ ...row, contact_id: ids[index] ?? "" })),
  );
  await synced(caller);
  const records = await recordsOf(caller);
  let result = records.get(stays)?.id ?? "";
  const primaryObjectId = Number(result);
  const gone = others.map((id) => records.get(id)?.id ?? "");
  for (const id of gone) {
    const made = await crm(env, caller.tenantId).merge(result, id, { key: `by hand ${id}` });
    result = made.state === "done" ? made.crmId : "";
  }
  const mergedObjectIds = gone.map(Number);
  const merge = { subscriptionType: "contact.merge", propertyName: undefined, primaryObjectId, mergedObjectIds };
  await notify(caller.tenantId, [event(result, { ...merge, newObjectId: Number(result) })]);
  expect(await looked(caller, 1)).toMatchObject([{ did: "merged", contact_id: stays }]);
  for (const id of others) await known(caller, id, stays);
});

/** A tenant with a first contact whose record was created by an upsert with a lost response; and the attempts of that push. */
async function madeAndLost() {
  const caller = await callerWith();
  const { tenantId } = caller;
  await bring(caller, people(caller, 1));
  const instanceId = crypto.randomUUID().replaceAll("-", "");
  const call = { env, envelope: { tenant_id: tenantId } as Envelope, instanceId, syncId: instanceId, scope: "changed" } as const;
  const attempt = () => syncChunk(call, { after: "", waiting: 0, mayCut: false });
  await theCrm().setFaults([{ match: `"${tenantId}/c0000"`, status: 503, remaining: 1, afterEffect: true }]);
  await expect(attempt()).rejects.toThrow();
  expect([...(await recordsOf(caller)).keys()]).toEqual(["c0000"]);
  await bring(caller, people(caller, 1, 1));
  const isOne = async () => {
    expect([...(await recordsOf(caller)).keys()]).toEqual(["c0001"]);
    expect(await linkOf(caller, "c0001")).toMatchObject({ state: "linked", crm_id: (await recordsOf(caller)).get("c0001")?.id });
  };
  return { caller, attempt, isOne };
}

it("a record of a lost upsert is looked up by the engine's name when its contact was merged since, and merged into the other's record", async () => {
  const dead = await madeAndLost();
  await env.DB.prepare("UPDATE crm_sends SET until = 0 WHERE tenant_id = ?1").bind(dead.caller.tenantId).run();
  await merge(dead.caller, "c0000", "c0001");
  await until(
    () => linkOf(dead.caller, "c0000"),
    ({ state }) => state === "merged",
  );
  await dead.isOne();

  const living = await madeAndLost();
  await merge(living.caller, "c0000", "c0001");
  await atomically(env.DB, (await living.attempt()).statements ?? []);
  await living.isOne();
});

it("two records that a user merges while one of their contacts is being pushed become one contact, also when a push created another record", async () => {
  for (const who of ["a chunk", "a contact.sync"]) {
    const caller = await callerWith();
    const { tenantId } = caller;
    const rows = people(caller, 2);
    await bring(caller, rows);
    await synced(caller);
    const before = await recordsOf(caller);
    const [kept, lost] = ["c0000", "c0001"].map((id) => before.get(id)?.id ?? "") as [string, string];
    await bring(caller, [{ ...rows[1], properties: { phone: "1" } } as never]);
    let result = "";
    const fetch = async (request: Request) => {
      if (request.url.endsWith("/upsert") && result === "") {
        const merging = await crm(env, tenantId).merge(kept, lost, { key: fresh("k"), trace: {} as never });
        if (merging.state === "done") result = merging.crmId;
      }
      return env.EMBEDDED_CRM.fetch(request);
    };
    const over = { ...env, EMBEDDED_CRM: { ...env.EMBEDDED_CRM, fetch } } as unknown as Cloudflare.Env;
    const instanceId = crypto.randomUUID().replaceAll("-", "");
    const call = { env: over, envelope: { tenant_id: tenantId } as Envelope, instanceId };
    if (who === "a chunk") {
      const chunk = await syncChunk({ ...call, syncId: instanceId, scope: "changed" }, { after: "", waiting: 0, mayCut: false });
      expect(chunk.output).toMatchObject({ waiting: 1 });
      await atomically(env.DB, chunk.statements ?? []);
    } else {
      const one = { ...call, contactId: "c0001" };
      const { output } = await upsertContact(one, (await lookAtOne(one)).output as Course);
      expect(output).toMatchObject({ again: true });
      await expect(lookAtOne(one)).rejects.toThrow("MERGED_IN_CRM");
    }
    const merger = {
      subscriptionType: "contact.merge",
      propertyName: undefined,
      primaryObjectId: Number(kept),
      mergedObjectIds: [Number(lost)],
    };
    await notify(tenantId, [event(result, merger)]);
    expect(await looked(caller, 1), who).toMatchObject([{ did: "merged", contact_id: "c0000" }]);
    await until(
      () => recordsOf(caller),
      ({ size }) => size === 1,
    );
    expect([...(await recordsOf(caller)).keys()], who).toEqual(["c0000"]);
    await known(caller, "c0001", "c0000");
    expect(await linkOf(caller, "c0001"), who).toMatchObject({ state: "merged", crm_id: null, pending: false });
  }
});
