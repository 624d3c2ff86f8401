import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { type Caller, callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { seedLetter } from "../../api/seed.ts";
import { settled } from "../../app/other-tenant.ts";
import { completed, problemsOf } from "../batches/batch.ts";
import { decisions, verdicts } from "../brand/brand.ts";
import { bring, contactOf } from "../crm/crm.ts";
import { factsOf, messageOf, seedRules } from "../facts/derived.ts";
import { ledger, projected, state } from "../facts/facts.ts";
import { placesOf } from "./everything.ts";
import { unhurried } from "./unhurried.ts";

const OCCURRED_AT = "2026-10-01T09:30:00.000Z";

function somebody(): { word: string; id: string; email: string; name: string } {
  const word = fresh("q").replaceAll("-", "");
  return { word, id: `cust-${word}`, email: `ada@${word}.example.com`, name: `Ada Quill${word}` };
}

async function forgotten(caller: Caller, contactId: string): Promise<void> {
  const { body } = await caller.post("/v1/contacts/forget", { contact_id: contactId, reason: "asked" });
  await reaches(caller, body.instance_id, "complete");
}

it("facts with an erased person in their names are renamed, recognized when published again, and charged once by a dead letter's replay", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const { tenantId } = caller;
  const { word, id, email, name } = somebody();
  await completed(caller, `contact_id,email,name\n${id},${email},${name}\n`);
  await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { percent: 50 }, payout: { percent: 10 } }]);
  const payload = { account: `a${word}`, partner: `p${word}`, value_cents: 1000, contact: id };
  const facts = [`call/${email}`, `call/${name}`, `call/${id}`].map((fact_id) => {
    return { fact_id, entity: `order/${word}`, type: "outcome", occurred_at: OCCURRED_AT, payload };
  });
  await state(caller, facts);
  const follows = async () => [...(await projected(tenantId, `account/a${word}`)), ...(await projected(tenantId, `partner/p${word}`))];
  await until(follows, ({ length }) => length === 6);
  await settled(tenantId);
  const [told] = await factsOf(tenantId, `order/${word}`);
  const letter = await seedLetter(tenantId, { queue: "fact-processing", body: await messageOf(told as never) });

  await forgotten(caller, id);
  expect(await placesOf([word].map((one) => `quill${one}`).concat(id, email))).toEqual([]);
  const { items } = await ledger(caller, `order/${word}`);
  const names = items.map(({ fact_id }: Json) => fact_id);
  expect(new Set(names)).toHaveProperty("size", 3);
  expect((await projected(tenantId, `order/${word}`)).map(({ fact_id }) => fact_id)).toEqual(names);
  const charges = (await projected(tenantId, `account/a${word}`)).map(({ payload: said }) => JSON.parse(said).outcome_id);
  expect(charges.toSorted(), "derived facts name their cause").toEqual(names.toSorted());

  expect(await state(caller, facts)).toMatchObject([1, 2, 3].map((sequence) => ({ duplicate: true, sequence })));
  expect((await caller.post(`/v1/dead-letters/${letter}/replay`, { reason: "again" })).status).toBe(202);
  await settled(tenantId);
  expect((await caller.get("/v1/dead-letters?state=open")).body.items).toEqual([]);
  expect((await caller.get(`/v1/budgets/a${word}`)).body).toMatchObject({ spent_cents: 1500 });
  expect(await follows()).toHaveLength(6);
});

it("names of cycles, schedules, properties and invalid fields contain no erased person, and neither does the tracestate", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const { word, id, email, name } = somebody();
  await bring(caller, [
    { contact_id: id, email, name },
    { contact_id: "next", email: "next@example.com", properties: { [email]: 1, [name]: 2, floor: 4 } },
  ]);
  const wrong = { contact_id: "wrong", email: "wrong@example.com", properties: { [email]: { n: 1 } } };
  const { batch_id } = await completed(caller, `${JSON.stringify(wrong)}\n`, { type: "application/x-ndjson" });
  for (const format of ["csv", "jsonl"]) {
    const asked = { operation: "export", dataset: "contacts", format, batch_id: format };
    expect((await caller.post("/v1/batches", asked)).status).toBe(202);
  }
  const tea = { brand: "tea", cycle: `${email} week`, keywords: ["green tea"] };
  const trace = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, tracestate: `crm=${id}` };
  const planned = await caller.post("/v1/commands", { type: "brand.cycle", payload: tea }, trace);
  await reaches(caller, planned.body.instance_id, "complete");
  const yearly = { cron: "0 7 1 1 *", command: { type: "brand.cycle", payload: { ...tea, cycle: "yearly" } }, reason: "each year" };
  expect((await caller.call("PUT", `/v1/schedules/${id}`, yearly)).status).toBe(200);
  expect((await caller.post(`/v1/schedules/${id}/run`, { reason: "now" })).status).toBe(202);
  const fact = {
    fact_id: "f",
    entity: `order/${word}`,
    type: "outcome",
    occurred_at: OCCURRED_AT,
    payload: { account: "shop", value_cents: 1 },
  };
  await state(caller, [fact], {}, trace);
  await settled(caller.tenantId);
  expect((await placesOf([id, email])).length).toBeGreaterThan(10);

  await forgotten(caller, id);
  expect(await placesOf([`quill${word}`, id, email])).toEqual([]);
  expect((await contactOf(caller, "next")).properties).toEqual({ "[forgotten]": 1, "[forgotten] 2": 2, floor: 4 });
  expect(await problemsOf(caller, batch_id)).toMatchObject([{ problem: expect.stringContaining("properties.[forgotten]: ") }]);
  expect((await decisions(caller, "tea")).map(({ cycle }) => cycle)).toEqual(["[forgotten] week", "yearly"]);
  const { results } = await env.DB.prepare("SELECT envelope FROM millrace_instances WHERE tenant_id = ?1 AND message_type = 'brand.cycle'")
    .bind(caller.tenantId)
    .all<{ envelope: string }>();
  const envelopes = results.map(({ envelope }) => JSON.parse(envelope));
  expect(envelopes.map(({ source }) => source).toSorted()).toEqual(["api/ada", expect.stringMatching(/^schedule:forgotten-/)]);
  expect(envelopes.filter(({ tracestate }) => tracestate !== undefined)).toEqual([]);
});

it("deferred research of a cycle that is named after the person is awaited, because its command has the cycle's name", async () => {
  const caller = await callerWith();
  const { id } = somebody();
  expect((await caller.call("PUT", "/v1/brands/tea", { max_drafts: 1, approval: "required" })).status).toBe(200);
  const asked = { type: "brand.cycle", payload: { brand: "tea", cycle: `${id} week`, keywords: ["green tea", "black tea"] } };
  await reaches(caller, (await caller.post("/v1/commands", asked)).body.instance_id, "complete");
  expect(await verdicts(caller, "tea")).toEqual(["green tea requested", "black tea held"]);
  const person = { ids: [{ id, as: "forgotten-0" }], emails: [], names: [], phones: [] };
  const look = () => brandAgentOf(env, caller.tenantId, "tea").forget(person, false);
  expect(await until(look, ({ waiting }) => waiting === 1)).toMatchObject({ waiting: 1, changed: 6 });
});
