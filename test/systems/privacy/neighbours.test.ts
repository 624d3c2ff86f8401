import { env } from "cloudflare:workers";
import { parse } from "csv-parse/sync";
import { expect, it } from "vitest";
import { type Caller, callerWith, fresh, type Json, reaches } from "../../api/client.ts";
import { settled } from "../../app/other-tenant.ts";
import { batchIn, completed, problemsOf } from "../batches/batch.ts";
import { contactOf, linkOf, recordsOf, synced } from "../crm/crm.ts";
import { ledger, projected, state } from "../facts/facts.ts";
import { placesOf } from "./everything.ts";
import { unhurried } from "./unhurried.ts";

async function exported(caller: Caller, dataset: string, format: string, id: string): Promise<void> {
  const asked = { operation: "export", dataset, format, batch_id: id };
  expect((await caller.post("/v1/batches", asked)).status).toBe(202);
  await batchIn(caller, id, "complete");
}

async function forgotten(caller: Caller, contactId: string): Promise<Json> {
  const { body } = await caller.post("/v1/contacts/forget", { contact_id: contactId, reason: "asked" });
  await reaches(caller, body.instance_id, "complete");
  return body;
}

it("a fact keeps its time when a contact's id equals that time as text; its content about the contact is rewritten", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const occurred_at = "2026-03-04T05:06:07.000Z";
  const payload = { account: "shop", contact: occurred_at, value_cents: 100, note: `the form of ${occurred_at}` };
  await state(caller, [{ fact_id: "f1", entity: "deal/1", type: "outcome", occurred_at, payload }]);
  await settled(caller.tenantId);
  for (const format of ["csv", "jsonl"]) await exported(caller, "facts", format, format);
  const { person } = await forgotten(caller, occurred_at);
  const kept = { occurred_at, payload: { contact: person, note: `the form of ${person}` } };
  expect((await ledger(caller, "deal/1")).items).toMatchObject([kept]);
  for (const format of ["csv", "jsonl"]) {
    const rows = String((await caller.get(`/v1/batches/${format}/result`)).body);
    expect([format, rows.split(occurred_at).length - 1, rows.split(String(person)).length - 1]).toEqual([format, 1, 2]);
  }
  // The projection is rebuilt from the ledger: a fact without its time would be refused.
  expect((await caller.post("/v1/projections/facts/rebuild", { request: "again" })).status).toBe(202);
  await settled(caller.tenantId);
  expect(await projected(caller.tenantId, "deal/1")).toHaveLength(1);
  expect((await caller.get("/v1/dead-letters?state=open")).body.items).toEqual([]);
});

it("contacts whose ids, addresses and names only contain an erased person's remain unchanged everywhere", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const word = fresh("q").replaceAll("-", "");
  const id = `ada-${word}`;
  const junior = `${id}-jr`;
  const file = [
    "contact_id,email,name,jobtitle,website",
    `${id},ada@${word}.test,Ann ${word},,`,
    `${junior},mary-ada@${word}.test,Mary-Ann ${word}-Smith,,https://k.test/${id}-jr`,
    `pre.${id},pre@${word}.test,Pre Fix,of ${junior} (mary-ada@${word}.test),https://k.test/${id}`,
    `fam-${word},ada@${word}.test,Bob Lee,,`,
    "",
  ].join("\n");
  await completed(caller, file);
  const refused = await completed(caller, `contact_id,email,name\n${junior},bad,Jr\n${id},bad,Ann\n`, { id: "refused" });
  await synced(caller);
  const formats = ["csv", "jsonl"];
  for (const format of formats) await exported(caller, "contacts", format, `all-${format}`);
  const fact = (fact_id: string, payload: Json, type = "outcome") => {
    const occurred_at = "2026-10-01T09:30:00.000Z";
    return { fact_id, entity: `order/${word}`, type, occurred_at, payload };
  };
  const shares = { [`ada@${word}.test`]: 700, [`Ann ${word}`]: 100, [junior]: 50 };
  const sale = { account: "shop", contact: junior, value_cents: 2000, note: `by Mary-Ann ${word}-Smith, mary-ada@${word}.test` };
  const facts = [
    fact("sale", sale),
    fact(`${junior}/sale`, { account: "shop", contact: `pre.${id}`, value_cents: 3000, shares, source: `said by Ann ${word}` }),
    fact("merge", { from: `pre.${id}`, into: `pre.${id}-2` }, "contact_merged"),
  ];
  await state(caller, facts, { correlation_id: `job-${junior}` });
  const schedule = { cron: "0 7 1 1 *", command: { type: "contact.sync", payload: { contact_id: junior, occasion: "yearly" } } };
  expect((await caller.call("PUT", "/v1/schedules/yearly", { ...schedule, reason: "r" })).status).toBe(200);
  await settled(caller.tenantId);
  const neighbours = async () => ({
    junior: [await contactOf(caller, junior), await linkOf(caller, junior), (await recordsOf(caller)).get(junior)],
    schedule: (await caller.get("/v1/schedules/yearly")).body.command,
    subjects: (await caller.get("/v1/instances?limit=100")).body.items
      .filter(({ workflow }: Json) => workflow !== "forget-contact")
      .map(({ subject, correlation_id }: Json) => `${subject} ${correlation_id}`)
      .sort(),
    family: await contactOf(caller, `fam-${word}`),
  });
  const before = await neighbours();

  const { person } = await forgotten(caller, id);
  expect(await neighbours()).toEqual(before);
  expect((await contactOf(caller, `pre.${id}`)).properties).toEqual({
    jobtitle: `of ${junior} (mary-ada@${word}.test)`,
    website: `https://k.test/${person}`,
  });
  const [first, second, third] = (await ledger(caller, `order/${word}`)).items;
  expect(first).toMatchObject({ fact_id: "sale", payload: sale });
  expect(second).toMatchObject({ fact_id: `${junior}/sale`, payload: { contact: `pre.${id}`, source: "said by [forgotten]" } });
  expect(second.payload.shares).toEqual({ "[forgotten]": 700, "[forgotten] 2": 100, [junior]: 50 });
  expect(third.payload).toEqual({ from: `pre.${id}`, into: `pre.${id}-2` });
  for (const format of formats) {
    const rows = String((await caller.get(`/v1/batches/all-${format}/result`)).body);
    for (const other of [junior, `pre.${id}`, `fam-${word}`]) expect(rows, format).toMatch(new RegExp(`^(.*")?${other}[",]`, "m"));
    expect(rows, format).not.toMatch(new RegExp(`^(.*")?${id}[",]`, "m"));
  }
  expect((await problemsOf(caller, refused.batch_id)).map(({ raw }) => raw)).toEqual([`${junior},bad,Jr`, "[forgotten]"]);
});

it("the removal of a contact with the id 7 leaves every other 7, and finds names in letters that SQLite does not fold", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const word = fresh("q").replaceAll("-", "");
  await completed(caller, `contact_id,email,name\n7,loe@${word}.test,Loé Bär${word}\n70,s70@${word}.test,Seventy\n`);
  const rows = ["70,bad,Seventy", "c-9,bad,call me on 0207 1", "7,bad,Loé"];
  await completed(caller, `contact_id,email,name\n${rows.join("\n")}\n`, { id: "refused" });
  const occurred_at = "2026-10-01T09:30:00.000Z";
  const other = { account: "shop", value_cents: 7, after: "7", from: "7", into: "9", key: "7" };
  const facts = [
    other,
    { account: "shop", value_cents: 1, contact: "7", brand: `Loé Bär${word}`, note: `LOÉ BÄR${word.toUpperCase()} called` },
  ].map((payload, index) => ({ fact_id: `f${index}`, entity: "order/7", type: "outcome", occurred_at, payload }));
  await state(caller, facts);
  await settled(caller.tenantId);
  await exported(caller, "facts", "csv", "facts");

  const { person } = await forgotten(caller, "7");
  const kept = [other, { account: "shop", value_cents: 1, contact: person, brand: "[forgotten]", note: "[forgotten] called" }];
  const { items } = await ledger(caller, "order/7");
  expect(items.map(({ payload }: Json) => payload)).toEqual(kept);
  expect((await projected(caller.tenantId, "order/7")).map(({ payload }) => JSON.parse(payload))).toEqual(kept);
  const exportedRows = (await caller.get("/v1/batches/facts/result")).body;
  expect(parse(exportedRows, { columns: true }).map(({ payload }: Json) => JSON.parse(payload))).toEqual(kept);
  expect((await problemsOf(caller, "refused")).map(({ raw }) => raw)).toEqual([rows[0], rows[1], "[forgotten]"]);
  const file = ["contact_id,email,name", ...rows, "c-10,bad,flat 7", ""].join("\n");
  const { batch_id } = await completed(caller, file);
  expect((await problemsOf(caller, batch_id)).map(({ raw }) => raw)).toEqual([rows[0], rows[1], "", "c-10,bad,flat 7"]);
  expect(await placesOf([`Bär${word}`])).toEqual([]);
});

it.each([
  ["+46771815x", "'+46771815x"],
  ["x46771815;=y", "x46771815;'=y"],
])("the contact %s, escaped as a formula, is removed from exports, findings and refused rows", async (id, cell) => {
  const caller = await callerWith();
  await completed(caller, `contact_id,email\n${id},ada@formula.test\nother,other@formula.test\n`);
  await exported(caller, "contacts", "csv", "escaped");
  await completed(caller, "contact_id,email\nother,other@formula.test\n", { id: "compared", operation: "reconcile" });
  const result = async (name: string) => String((await caller.get(`/v1/batches/${name}/result`)).body);
  const file = await result("escaped");
  expect(file).toContain(cell);
  await forgotten(caller, id);
  expect(await result("escaped")).toContain("other@formula.test");
  for (const name of ["escaped", "compared"]) expect(await result(name), name).not.toContain("46771815");
  const { batch_id, rows } = await completed(caller, file);
  expect(rows).toMatchObject({ done: 1, failed: 1 });
  expect(await problemsOf(caller, batch_id)).toMatchObject([{ raw: "" }]);
});

it("a stopped batch with an upload that names the person is awaited until an operator has settled it; other batches are not", async () => {
  const caller = await callerWith();
  const word = fresh("q").replaceAll("-", "");
  const id = `ada-${word}`;
  await completed(caller, `contact_id,email\n${id},ada@${word}.test\n`);
  const { instance_id } = await completed(caller, "contact_id,email\n", { id: "stopped" });
  await settled(caller.tenantId);
  const standing = async (status: string, state: string, endedAt: string) => {
    await env.DB.prepare("UPDATE millrace_instances SET status = ?2 WHERE id = ?1").bind(instance_id, status).run();
    await env.DB.prepare(`UPDATE batches SET state = ?2, ended_at = ${endedAt} WHERE instance_id = ?1`).bind(instance_id, state).run();
  };
  await standing("errored", "running", "NULL");
  const uploaded = `batches/${caller.tenantId}/stopped/upload/1`;
  const look = async () => (await caller.post("/v1/contacts/forget", { contact_id: id, reason: "a look", dry_run: true })).body;
  await env.PAYLOADS.put(uploaded, `contact_id,email\n${id}-jr,mary-ada@${word}.test\n`);
  expect(await look()).toMatchObject({ waiting: 0, complete: true });
  await env.PAYLOADS.put(uploaded, `contact_id,email\n${id},ada@${word}.test\n`);
  expect(await look()).toMatchObject({ waiting: 1 });
  await standing("complete", "cancelled", "updated_at");
  expect(await look()).toMatchObject({ waiting: 0, found: { "batch files": 1 } });
});
