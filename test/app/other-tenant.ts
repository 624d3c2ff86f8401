import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { brandAgentOf } from "../../src/systems/brand/brand-agents.ts";
import { pseudonymOf } from "../../src/systems/contacts/forgotten.ts";
import { budgetOf } from "../../src/systems/facts/derived/budgets.ts";
import { resolveContacts } from "../../src/systems/facts/derived/contact-books.ts";
import { readLedger } from "../../src/systems/facts/ledger/ledgers.ts";
import { type Caller, callerWith, fresh, type Json, reaches, until } from "../api/client.ts";
import { seedApproval, seedLetter } from "../api/seed.ts";
import { draft, publish } from "../systems/content/article.ts";
import { bring, linkOf, people, synced, theCrm } from "../systems/crm/crm.ts";
import { projectedUntil, state } from "../systems/facts/facts.ts";
import { endpoint, received } from "../systems/webhooks/hook.ts";
import type { Names } from "./payloads.ts";

/** A tenant with one item of every kind, and the name of each item in messages. */
export interface OtherTenant {
  readonly caller: Caller;
  readonly names: Names;
  readonly hook: string;
  /** A word in the tenant's article, research and contacts, and in no message. */
  readonly secret: string;
}

/**
 * Creates a tenant with a brand with research and a page, contacts in the CRM, an endpoint with a delivery, a ledger, a budget with a
 * hold, a merge, a batch and a sync.
 */
export async function otherTenant(): Promise<OtherTenant> {
  const caller = await callerWith();
  const { tenantId } = caller;
  const [brand, account] = [fresh("brand"), fresh("a")];
  // The record of the trend has the job that its sender names, so the job does not contain the tenant's name.
  const payload = { brand, cycle: "first", keywords: ["black tea"] };
  const asked = await caller.post("/v1/commands", { type: "brand.cycle", payload, correlation_id: crypto.randomUUID() });
  await reaches(caller, asked.body.instance_id, "complete");
  const trend = { type: "keyword.trending", payload: { brand, keyword: "green tea", seen_on: "2026-10-01" } };
  const told = await caller.post("/v1/events", { ...trend, correlation_id: asked.body.correlation_id }, { "idempotency-key": "1" });
  expect(told.status).toBe(202);
  const secret = fresh("secret");
  const article = await draft(caller, { brand, text: `# Green tea\n\nIt is a ${secret}.` });
  const page = await publish(caller, article);
  await bring(
    caller,
    people(caller, 3).map((person) => ({ ...person, name: secret })),
  );
  const sync = await synced(caller);
  const record = await linkOf(caller, "c0000");

  const hooked = await endpoint(caller);
  await caller.call("PUT", `/v1/budgets/${account}`, { limit_cents: 1000 });
  const ask = await caller.post(`/v1/budgets/${account}/asks`, { amount_cents: 400 }, { "idempotency-key": "an ad" });
  const entity = `account/${account}`;
  const head = { occurred_at: "2026-10-01T09:30:00.000Z" };
  const merged = { ...head, fact_id: "merge", entity: "contacts", type: "contact_merged", payload: { from: "c0002", into: "c0001" } };
  await state(caller, [{ ...head, fact_id: "sale", entity, type: "outcome", payload: { account, value_cents: 1 } }, merged]);
  const delivery = await hooked.delivery("sent");
  await until(
    async () => (await resolveContacts(env, tenantId, ["c0002"])).get("c0002"),
    (canonical) => canonical === "c0001",
  );
  const [{ batch_id }] = (await caller.get("/v1/batches")).body.items;
  const research = await until(
    async () => env.DB.prepare("SELECT id FROM research WHERE tenant_id = ?1").bind(tenantId).first<string>("id"),
    (id) => id !== null,
  );
  await settled(tenantId);
  const sources = JSON.stringify([{ url: "https://example.com/", title: secret, snippet: secret }]);
  await env.DB.prepare("UPDATE research SET sources = ?2 WHERE tenant_id = ?1").bind(tenantId, sources).run();
  await projectedUntil(tenantId, 4);
  await seedLetter(tenantId, { cause: "any" });
  await seedApproval(tenantId, { instanceId: asked.body.instance_id, dueAt: Date.now() + 86_400_000 });
  const command = { type: "brand.audit", payload: { brand } };
  for (const [path, body] of [
    ["/v1/schedules/mondays", { cron: "0 7 * * 1", command, reason: "every Monday" }],
    ["/v1/qualification-rules", { expected_version: 0, rules: [] }],
  ] as const) {
    expect((await caller.call("PUT", path, body)).status).toBe(200);
  }
  const text = `what ${tenantId} says`;
  // A stopped instance: part of it remains.
  const halted = { verb: "skip", ids: ["none", "neither"], ramp: [1], reason: "to be stopped" };
  const { id: bulk_id } = (await caller.post("/v1/bulk-actions", halted)).body;
  await caller.post("/v1/sign-in-codes", { reason: "To look." });
  expect((await caller.post("/v1/workflows/export-rows/pause", { reason: text })).status).toBe(202);
  await until(
    async () => (await caller.get(`/v1/bulk-actions/${bulk_id}`)).body,
    ({ state }) => state === "stopped",
  );
  return {
    caller,
    hook: hooked.hook,
    secret,
    names: {
      tenant_id: tenantId,
      ...{ brand, cycle: "first", keyword: "black tea", keywords: "black tea", audit: "first", findings: text },
      ...{ title: text, description: text, key_points: text },
      ...{
        content_id: article.id,
        url: page.url,
        uri: "at://did:plc:other/app.bsky.feed.post/1",
        post_url: "https://bsky.app/profile/did:plc:other/post/1",
        site: "main",
        research_id: research ?? "",
        reuse: research ?? "",
      },
      ...{ contact_id: "c0000", contact: "c0000", from: "c0001", into: "c0000", occasion: "1", sync_id: sync.sync_id },
      ...{ crm_id: record.crm_id, merged: record.crm_id, event_id: fresh("e"), batch_id, request: "r" },
      ...{ endpoint_id: hooked.id, delivery_id: delivery.id, entity, fact_id: "sale", fact_type: "outcome", body: "{}" },
      ...{ account, partner: account, hold: ask.body.hold, outcome_id: "sale", rule: "all", about: entity },
      // A pseudonym has its own form; its person is in a row of this tenant.
      ...{
        person: pseudonymOf(env, tenantId, "c0000"),
        charge: "charge-of-sale",
        payout: "payout-of-sale",
        tenant: tenantId,
        asked_by: "ada",
      },
      ...{
        ...{ alert_id: "a".repeat(32), examples: asked.body.instance_id, meaning: text, doc: "docs/alerts.md" },
        note: text,
        ...{ by: "ada", text },
        reason: text,
        subtype: text,
        trace_id: "a".repeat(32),
        traceparent: `00-${"a".repeat(32)}-b7ad6b7169203331-01`,
        tracestate: "other=1",
      },
      bulk_id,
      correlation_id: asked.body.correlation_id,
      causation_id: `${asked.body.instance_id}/decide`,
    },
  };
}

/** Waits until no instance of the tenants of a pattern is running. */
export async function settled(tenants: string): Promise<void> {
  const open = env.DB.prepare(
    `SELECT (SELECT count(*) FROM millrace_instances WHERE tenant_id GLOB ?1 AND status NOT IN ('complete', 'errored', 'dead', 'skipped', 'terminated'))
       + (SELECT count(*) FROM millrace_outbox WHERE body->>'tenant_id' GLOB ?1) AS count`,
  ).bind(tenants);
  let quiet = 0;
  await until(
    async () => {
      quiet = (await open.first<number>("count")) === 0 ? quiet + 1 : 0;
      return quiet;
    },
    (looks) => looks > 10,
  );
  expect(quiet, "polls without a running instance").toBeGreaterThan(10);
}

/** The condition on a tenant's rows in tables that do not name it. */
const FOUND_BY: Record<string, string> = {
  millrace_inbox: "instance_id IN (SELECT id FROM millrace_instances WHERE tenant_id GLOB ?1)",
  millrace_stated_events: "correlation_id IN (SELECT correlation_id FROM millrace_instances WHERE tenant_id GLOB ?1)",
  millrace_outbox: "body->>'tenant_id' GLOB ?1",
  // Labels of series name queues, types, workflows and steps.
  millrace_counts: "body GLOB '*' || ?1 || '*'",
  millrace_tallies: "body GLOB '*' || ?1 || '*'",
  millrace_audit_opened: "id GLOB ?1",
  // Tables of the deployment, not of a tenant.
  millrace_alerts: "labels GLOB ?1",
  // Hashes of streams: no consumer of this deployment has a rule for gaps.
  millrace_sequences: "hex(id) GLOB ?1",
  millrace_tombstones: "id IN (SELECT unhex(id) FROM millrace_instances WHERE tenant_id GLOB ?1)",
};

/** Tables without rows of an idle tenant. */
export const EMPTY_AT_REST = [
  "batch_keys",
  "batch_parts",
  "crm_failures",
  "crm_sends",
  "forgettings",
  "forgotten",
  "millrace_alerts",
  "millrace_audit_opened",
  "millrace_cells",
  "millrace_counts",
  "millrace_divergences",
  "millrace_failed_deliveries",
  "millrace_fences",
  "millrace_lanes",
  "millrace_locks",
  "millrace_moved",
  "millrace_outbox",
  "millrace_schedule_runs",
  "millrace_sequences",
  "millrace_tags",
  "millrace_tallies",
  "millrace_tenant_objects",
  "millrace_tombstones",
  "millrace_waits",
  "object_sizes",
];

/** Tables of the platform and of the tests. */
const NOT_OURS = ["_cf_KV", "_cf_METADATA", "d1_migrations", "sqlite_sequence"];

/** All data of a tenant: every table, both buckets, each kind of object, the CRM, its receiver. */
export async function everythingOf({ caller: { tenantId }, names, hook }: OtherTenant): Promise<Json> {
  const { brand = "", account = "", entity = "", endpoint_id } = names;
  const agent = brandAgentOf(env, tenantId, brand);
  const ledgers = [entity, "contacts", `webhook/${endpoint_id}`].map((one) => readLedger(env, tenantId, one, { after: 0, limit: 100 }));
  const records = await theCrm().list("contacts");
  return {
    rows: await rowsOf(tenantId),
    payloads: await keysIn(env.PAYLOADS, (key) => key.split("/")[1] === tenantId),
    pages: await keysIn(env.PAGES, (key) => key.startsWith(`${tenantId}/`)),
    ledgers: await Promise.all(ledgers),
    budget: await budgetOf(env, tenantId, account).state(),
    contacts: [...(await resolveContacts(env, tenantId, ["c0000", "c0001", "c0002"]))],
    agent: [await agent.beliefs(), await agent.state(), await agent.decisions({ before: Number.MAX_SAFE_INTEGER, limit: 100 })],
    records: records.filter(({ key }) => key?.startsWith(`${tenantId}/`)),
    received: await received(hook),
  };
}

/** All data of the tenants that match a pattern, from tables, pages and the CRM, as one text. */
export async function textOf(tenants: string): Promise<string> {
  const isTheirs = (name: string) => name.startsWith(tenants.replace("*", ""));
  const pages = (await keysIn(env.PAGES, isTheirs)).map(async (found) => (await env.PAGES.get(found.split(" ")[0] ?? ""))?.text());
  const records = (await theCrm().list("contacts")).filter(({ key }) => isTheirs(key ?? ""));
  return JSON.stringify([await rowsOf(tenants), await Promise.all(pages), records]);
}

/** The rows of the tenants that match a pattern, by table. */
async function rowsOf(tenants: string): Promise<Json> {
  const { results } = await env.DB.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").all<Json>();
  const tables = results.filter(({ name }) => !NOT_OURS.includes(name));
  const found = tables.map(async ({ name, sql }) => {
    const where = /^ *tenant_id /m.test(sql) ? "tenant_id GLOB ?1" : FOUND_BY[name];
    if (where === undefined) throw new Error(`Add to test/app/other-tenant.ts how a tenant's rows of the table ${name} are found.`);
    const { results: rows } = await env.DB.prepare(`SELECT * FROM "${name}" WHERE ${where}`).bind(tenants).all();
    return [name, rows.map((row) => JSON.stringify(row)).sort()];
  });
  return Object.fromEntries(await Promise.all(found));
}

async function keysIn(bucket: R2Bucket, isTheirs: (key: string) => boolean): Promise<string[]> {
  const keys: string[] = [];
  for (let cursor: string | undefined, more = true; more; ) {
    const found = await bucket.list(cursor === undefined ? {} : { cursor });
    keys.push(...found.objects.filter(({ key }) => isTheirs(key)).map(({ key, etag }) => `${key} ${etag}`));
    more = found.truncated;
    cursor = found.truncated ? found.cursor : undefined;
  }
  return keys.sort();
}
