import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Caller, callerWith, fresh, type Json } from "../../api/client.ts";
import { completed } from "../batches/batch.ts";
import { bring, callsSince, contactOf, lastCall, linkOf, people, type Row, recordsOf, synced, theCrm } from "./crm.ts";

/** A tenant with one contact on both sides, with a job title set by a user of the CRM. */
async function inStep() {
  const caller = await callerWith();
  const [row] = people(caller, 1) as [Row];
  await bring(caller, [row]);
  await synced(caller);
  await theCrm().edit((await recordsOf(caller)).get("c0000")?.id ?? "", { jobtitle: "Captain" });
  await bring(caller, [{ ...row, properties: { city: "Oslo" } }]);
  expect((await synced(caller)).contacts).toMatchObject({ taken: 1 });
  return { caller, row };
}

const there = async (caller: Caller): Promise<Json> => (await recordsOf(caller)).get("c0000")?.properties;

it("a repeated import erases no value from the CRM, and makes no call", async () => {
  const { caller, row } = await inStep();
  await bring(caller, [{ ...row, properties: { city: "Oslo" } }]);
  expect((await contactOf(caller, "c0000")).properties).toEqual({ city: "Oslo", jobtitle: "Captain" });
  const before = await lastCall();
  await synced(caller);
  expect(await callsSince(before)).toEqual([]);
});

it("a file changes the properties that it contains, and clears those that are empty in it, in the engine and in the CRM; others remain", async () => {
  const { caller, row } = await inStep();
  const { name: _, ...nameless } = row;
  await bring(caller, [{ ...nameless, properties: { phone: "+1", jobtitle: null, city: "" } }]);
  expect(await contactOf(caller, "c0000")).toMatchObject({ name: row.name, properties: { phone: "+1", jobtitle: null, city: "" } });
  await synced(caller);
  expect(await there(caller)).toMatchObject({ firstname: "Person", lastname: "c0000", phone: "+1" });
  const { city, jobtitle } = await there(caller);
  expect([city ?? "", jobtitle ?? ""]).toEqual(["", ""]);
});

it("several rows of one contact in one file each change the properties that they contain", async () => {
  const { caller, row } = await inStep();
  const { name: _, ...nameless } = row;
  await bring(caller, [
    { ...row, name: "Ada", properties: { n: 1, yes: true } },
    { ...nameless, properties: { n: 2, 'a.b "c"': "odd" } },
  ]);
  expect(await contactOf(caller, "c0000")).toMatchObject({
    name: "Ada",
    properties: { city: "Oslo", jobtitle: "Captain", n: 2, yes: true, 'a.b "c"': "odd" },
  });
});

it("an empty CSV cell is ignored", async () => {
  const { caller, row } = await inStep();
  await completed(caller, `contact_id,email,name,city,zip\nc0000,${row.email},,,0150\n`);
  expect(await contactOf(caller, "c0000")).toMatchObject({
    name: row.name,
    properties: { city: "Oslo", jobtitle: "Captain", zip: "0150" },
  });
});

it("a sync of all contacts restores from the CRM the properties that a contact has lost in the engine", async () => {
  const { caller } = await inStep();
  await env.DB.prepare("UPDATE contacts SET properties = '{}' WHERE tenant_id = ?1").bind(caller.tenantId).run();
  expect((await synced(caller, "changed")).contacts).toMatchObject({ taken: 0 });
  expect((await synced(caller, "all")).contacts).toMatchObject({ taken: 1, failed: 0 });
  expect((await contactOf(caller, "c0000")).properties).toEqual({ city: "Oslo", jobtitle: "Captain" });
  expect(await linkOf(caller, "c0000")).toMatchObject({ pending: false });
  expect((await synced(caller, "all", fresh("s"))).contacts).toMatchObject({ taken: 0 });
});

it("a row that would give a contact more than 200 properties is refused alone", async () => {
  const { caller, row } = await inStep();
  const named = (from: number) => Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`p${from + index}`, "1"]));
  for (const from of [0, 50, 100]) await bring(caller, [{ ...row, properties: named(from) }]);
  const rows = [{ ...row, properties: named(150) }, ...people(caller, 1, 1)];
  const batch = await completed(caller, rows.map((one) => `${JSON.stringify(one)}\n`).join(""), { type: "application/x-ndjson" });
  expect(batch.rows).toMatchObject({ done: 1, failed: 1 });
  expect(Object.keys((await contactOf(caller, "c0000")).properties)).toHaveLength(152);
});
