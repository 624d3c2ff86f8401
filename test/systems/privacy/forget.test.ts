import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Caller, callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { seedInstance, seedLetter } from "../../api/seed.ts";
import { settled } from "../../app/other-tenant.ts";
import { completed, problemsOf } from "../batches/batch.ts";
import { command, event, linkOf, merge, notify, recordsOf, synced, theCrm } from "../crm/crm.ts";
import { projected, state } from "../facts/facts.ts";
import { endpoint } from "../webhooks/hook.ts";
import { placesOf } from "./everything.ts";
import { unhurried } from "./unhurried.ts";

/** The places of such a person's data. */
const KEPT_IN = [
  ...["BUDGET", "CONTACT_BOOK", "EMBEDDED_CRM_STORE", "LEDGER", "PAYLOADS batches", "PAYLOADS payloads"],
  ...["contacts", "crm_links", "facts"].map((name) => `table ${name}`),
  ...["actions", "dead_letters", "inbox", "instances", "schedules"].map((name) => `table millrace_${name}`),
  "table webhook_deliveries",
];

/** A person with data in every possible place, and another person with the same amount of data. */
async function somebody() {
  const caller = await callerWith();
  const word = fresh("q").replaceAll("-", "");
  const person = {
    id: `cust-${word}`,
    twin: `old-${word}`,
    email: `zelda.${word}@example.com`,
    name: `Zelda Quill${word}`,
    phone: `+44 20 7946 ${word.slice(-6)}99`,
  };
  const words = [`cust-${word}`, `old-${word}`, `zelda.${word}`, `quill${word}`, person.phone];
  const neighbour = { id: `next-${word}x`, email: `next.${word}x@example.com`, name: "Nora Next" };
  const file = [
    "contact_id,email,name,company,phone",
    `${person.id},${person.email},${person.name},Acme,${person.phone}`,
    `${person.twin},second.${person.email},${person.name},,`,
    `${neighbour.id},${neighbour.email},${neighbour.name},Acme,`,
    `${person.id},no address,${person.name},,`,
    "",
  ].join("\n");
  return { caller, person, words, neighbour, file };
}

async function charged(tenantId: string, account: string): Promise<Json> {
  const rows = await projected(tenantId, `account/${account}`);
  const charges = rows.filter(({ type }) => type === "charge").map(({ payload }) => JSON.parse(payload).amount_cents);
  return { facts: rows.length, charges: charges.length, sum: charges.reduce((sum, one) => sum + one, 0) };
}

async function forget(caller: Caller, contactId: string): Promise<Json> {
  const { status, body } = await caller.post("/v1/contacts/forget", { contact_id: contactId, reason: `${contactId} asked for it` });
  expect(status, JSON.stringify(body)).toBe(202);
  await reaches(caller, body.instance_id, "complete");
  return body;
}

it("an erased person is found nowhere, sums remain, and nothing restores the person", { timeout: 240_000 }, async () => {
  await unhurried("FORGET_CONTACT");
  const { caller, person, words, neighbour, file } = await somebody();
  const { tenantId } = caller;
  const account = fresh("a");

  // In imported and exported files.
  await completed(caller, file);
  const hook = await endpoint(caller, { fact_types: ["outcome", "contact_merged"] });
  await synced(caller);
  await merge(caller, person.twin, person.id);
  await synced(caller, "all");
  for (const operation of ["export", "reconcile"] as const) await inFiles(caller, operation, file);

  // In ledgers, and in derived facts.
  const rules = [{ name: "all", when: [], charge: { percent: 50 } }];
  expect((await caller.call("PUT", "/v1/qualification-rules", { expected_version: 0, rules })).status).toBe(200);
  await caller.call("PUT", `/v1/budgets/${account}`, { limit_cents: 100_000 });
  const ask = { amount_cents: 400 };
  await caller.post(`/v1/budgets/${account}/asks`, ask, { "idempotency-key": `lead ${person.id}` });
  const facts = [`lead/${person.id}`, "plain"].map((fact_id, index) => ({
    fact_id,
    entity: `account/${account}`,
    type: "outcome",
    occurred_at: "2026-10-01T09:30:00.000Z",
    payload: { account, contact: person.id, value_cents: 1000 + index, note: `said by ${person.name}, ${person.email}` },
  }));
  await state(caller, facts);
  await until(
    () => charged(tenantId, account),
    ({ charges }) => charges === 2,
  );
  await until(
    () => caller.get(`${hook.path}/deliveries`),
    ({ body }) => body.items.length === 3 && body.items.every((one: Json) => one.state === "sent"),
  );

  // In the CRM and its webhooks; in dead letters, schedules and the audit.
  const { crm_id: crmId } = await linkOf(caller, person.id);
  await theCrm().edit(crmId, { jobtitle: "Countess" });
  const notice = event(crmId, { propertyName: "jobtitle", propertyValue: "Countess" });
  await notify(tenantId, [notice]);
  const asked = { contact_id: person.id, occasion: `of ${person.email}` };
  const alone = await command(caller, "contact.sync", asked);
  const lost = { ...facts[0], fact_id: `lost/${person.id}`, entity: `account/${account}` };
  const letter = await seedLetter(tenantId, { queue: "fact-processing", body: letterBody(tenantId, lost) });
  const schedule = { cron: "0 7 1 1 *", command: { type: "contact.sync", payload: asked }, reason: `for ${person.name}` };
  expect((await caller.call("PUT", "/v1/schedules/yearly", schedule)).status).toBe(200);
  await env.PAYLOADS.put(`payloads/${tenantId}/large/${fresh()}`, JSON.stringify({ contact_id: person.id, note: person.name }));
  await settled(tenantId);
  const before = await charged(tenantId, account);
  const budget = (await caller.get(`/v1/budgets/${account}`)).body;
  const places = (await placesOf(words)).map((place) => /^(table \w+|PAYLOADS \w+|\w+)/.exec(place)?.[0]);
  expect([...new Set(places)].sort()).toEqual(KEPT_IN);

  const preview = await caller.post("/v1/contacts/forget", { contact_id: person.twin, reason: "a look", dry_run: true });
  expect(preview.body).toMatchObject({
    complete: true,
    waiting: 0,
    found: { contacts: 2, crm_links: 2, ledgers: expect.any(Number), facts: expect.any(Number) },
  });
  expect(preview.body.contact_ids.sort()).toEqual([person.id, person.twin].sort());
  expect(await recordsOf(caller)).toHaveProperty("size", 2);

  // Requested by an earlier id of the person: both ids are one person.
  const done = await forget(caller, person.twin);
  expect(await placesOf(words)).toEqual([]);
  expect(await charged(tenantId, account)).toEqual(before);
  expect((await caller.get(`/v1/budgets/${account}`)).body).toEqual(budget);
  expect([...(await recordsOf(caller)).keys()]).toEqual([neighbour.id]);
  expect((await caller.get("/v1/contacts")).body.items.map(({ contact_id }: Json) => contact_id)).toEqual([neighbour.id]);
  expect(await linkOf(caller, neighbour.id)).toMatchObject({ state: "linked", pending: false });
  const audited = (await caller.get("/v1/audit")).body.items.find(({ verb }: Json) => verb === "forget");
  expect(audited).toMatchObject({ actor: "ada", target: done.person, result: "applied", detail: { removed: preview.body.found } });

  await expect(env.SYNC_CONTACT.get(alone), "the platform's own copy").rejects.toThrow();

  // Everything again.
  await command(caller, "contact.sync", asked);
  await notify(tenantId, [notice, event(crmId, { propertyName: "phone", propertyValue: "1" })]);
  expect((await caller.post(`/v1/dead-letters/${letter}/replay`, { reason: "again" })).status).toBe(202);
  expect(await state(caller, facts)).toMatchObject([{ duplicate: true }, { duplicate: true }]);
  expect((await caller.post(`/v1/budgets/${account}/asks`, ask, { "idempotency-key": `lead ${person.id}` })).body).toMatchObject({
    replayed: true,
  });
  const again = await completed(caller, file);
  expect(again.rows).toMatchObject({ done: 1, failed: 3 });
  const refused = (await problemsOf(caller, again.batch_id)).filter(({ problem }) => /erased/.test(problem));
  expect(refused).toMatchObject([
    { row: 1, raw: "" },
    { row: 2, raw: "" },
  ]);
  await synced(caller, "all");
  await settled(tenantId);
  expect(await recordsOf(caller)).toHaveProperty("size", 1);
  expect((await charged(tenantId, account)).sum, "with that of the dead letter").toBe(before.sum + 500);
  expect(await placesOf(words)).toEqual([]);
});

async function inFiles(caller: Caller, operation: "export" | "reconcile", file: string): Promise<void> {
  if (operation === "reconcile") return void (await completed(caller, file, { operation }));
  for (const [dataset, format] of [
    ["contacts", "csv"],
    ["contacts", "jsonl"],
    ["facts", "jsonl"],
  ]) {
    const id = fresh("b");
    const { status, body } = await caller.post("/v1/batches", { operation, dataset, format, batch_id: id });
    expect(status, JSON.stringify(body)).toBe(202);
    await until(
      () => caller.get(`/v1/batches/${id}`),
      ({ body }) => body.state === "complete",
    );
  }
}

function letterBody(tenantId: string, fact: Json): Json {
  const trace = "a".repeat(32);
  const recorded = {
    ...fact,
    tenant_id: tenantId,
    trace_id: trace,
    correlation_id: "job",
    causation_id: "test",
    sequence: 99,
    recorded_at: new Date().toISOString(),
  };
  return {
    schema_version: 1,
    message_type: "fact.outcome",
    kind: "event",
    source: "ledger",
    correlation_id: "job",
    causation_id: "test",
    idempotency_key: `${fact.entity}/${fact.fact_id}`,
    subject: fact.entity,
    tenant_id: tenantId,
    created_at: "2026-10-01T09:30:00.000Z",
    traceparent: `00-${trace}-b7ad6b7169203331-01`,
    payload_inline: recorded,
  };
}

it("unfinished work that names an erased person is awaited, and then searched", { timeout: 120_000 }, async () => {
  await unhurried("FORGET_CONTACT");
  const { caller, person, words } = await somebody();
  await completed(caller, `contact_id,email\n${person.id},${person.email}\n`);
  const letter = { contact_id: person.id, occasion: person.email };
  const instanceId = await seedInstance(caller.tenantId, { status: "waiting", error: letter });
  const { body } = await caller.post("/v1/contacts/forget", { contact_id: person.id, reason: "asked" });
  await until(
    () =>
      env.DB.prepare("SELECT count(*) AS passes FROM millrace_inbox WHERE instance_id = ?1 AND step = 'search'")
        .bind(body.instance_id)
        .first<Json>(),
    ({ passes }) => passes >= 3,
  );
  expect((await caller.get(`/v1/instances/${body.instance_id}`)).body.status).not.toBe("complete");
  await env.DB.prepare("UPDATE millrace_instances SET status = 'terminated' WHERE id = ?1").bind(instanceId).run();
  await reaches(caller, body.instance_id, "complete");
  expect(await placesOf(words)).toEqual([]);
});

it("a contact that is deleted for privacy in the CRM is erased in the engine", { timeout: 120_000 }, async () => {
  await unhurried("FORGET_CONTACT");
  const { caller, person, words, neighbour, file } = await somebody();
  await completed(caller, file);
  await synced(caller);
  const { crm_id: crmId } = await linkOf(caller, person.id);
  const notice = event(crmId, { subscriptionType: "contact.privacyDeletion" });
  expect((await notify(caller.tenantId, [notice])).body).toEqual({ accepted: 1, known: 0, foreign: 0, unread: 0 });
  await until(
    () => caller.get("/v1/audit"),
    ({ body }) => body.items.some(({ verb }: Json) => verb === "forget"),
  );
  await settled(caller.tenantId);
  const own = words.filter((word) => !word.startsWith("old-"));
  expect((await placesOf([own[0] ?? "", person.phone])).filter((place) => !place.includes(person.twin))).toEqual([]);
  expect((await notify(caller.tenantId, [notice])).body).toEqual({ accepted: 0, known: 0, foreign: 0, unread: 0 });
  await command(caller, "contact.sync", { contact_id: neighbour.id, occasion: "after" });
  await completed(caller, file);
  await synced(caller, "all");
  expect([...(await recordsOf(caller)).keys()].sort()).toEqual([neighbour.id, person.twin].sort());
});

it("a row with control characters in its contact's id is reported as a problem of its file; an existing contact with such an id is shown, synced and erased", async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const { tenantId } = caller;
  const word = fresh("q").replaceAll("-", "");
  const id = `${word}\u0001\u200f`;
  const row = { contact_id: id, email: `${word}@example.com` };
  const batch = await completed(caller, JSON.stringify(row), { type: "application/x-ndjson" });
  expect(await problemsOf(caller, batch.batch_id)).toMatchObject([{ problem: "contact_id: must not contain control characters" }]);

  await env.DB.prepare(
    `INSERT INTO contacts (tenant_id, contact_id, email, name, properties, revision, updated_at, imported_by)
     VALUES (?1, ?2, ?3, 'Zelda', '{}', 1, 1, 'an earlier deployment')`,
  )
    .bind(tenantId, id, row.email)
    .run();
  await synced(caller);
  expect((await caller.get(`/v1/contacts?contact_id=${encodeURIComponent(id)}`)).body.items).toMatchObject([row]);
  expect((await caller.get(`/v1/contacts/${encodeURIComponent(id)}`)).body).toMatchObject({ contact_id: id, canonical_id: id });
  expect(await linkOf(caller, encodeURIComponent(id))).toMatchObject({ contact_id: id, state: "linked" });
  await forget(caller, id);
  expect(await placesOf([word])).toEqual([]);
});
