import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Caller, callerWith, expectProblem, fresh, type Json, until } from "../../api/client.ts";
import { seedInstance } from "../../api/seed.ts";
import { everythingOf, otherTenant } from "../../app/other-tenant.ts";
import { bring } from "../crm/crm.ts";
import { everything } from "./everything.ts";
import { unhurried } from "./unhurried.ts";

/** The remains of a deleted tenant: the audit's row and the command that deleted it; and data outside the deployment, in its upstreams. */
const STAYS = ["EMBEDDED_CRM_STORE", "EMBEDDED_LEDGER", "table millrace_actions", "table millrace_instances"];

it("a deleted tenant leaves nothing in tables, buckets and objects except the proof of the deletion; another tenant's data is unchanged", {
  timeout: 240_000,
}, async () => {
  await unhurried("DELETE_TENANT");
  const [gone, stays] = [await otherTenant(), await otherTenant()];
  const { caller, names, secret } = gone;
  await env.PAYLOADS.put(`files/${caller.tenantId}/people.csv`, secret);
  const running = await seedInstance(caller.tenantId, { status: "waiting" });
  await env.PAYLOADS.put(`archive/${caller.tenantId}/0/1.jsonl`, secret);
  const colleague = await callerWith(["enqueue"], caller.tenantId);
  expect((await colleague.ask("before")).status).toBe(202);
  const before = await everythingOf(stays);

  const asked = { tenant: caller.tenantId, reason: "the contract has ended", dry_run: false };
  for (const field of Object.keys(asked)) {
    // A body that lacks one field, as an incorrect program sends it.
    expectProblem(await caller.post("/v1/tenant/delete", { ...asked, [field]: undefined }), 422, "invalid_payload");
  }
  expectProblem(await caller.post("/v1/tenant/delete", { ...asked, tenant: stays.caller.tenantId }), 422, "invalid_payload");
  const preview = await caller.post("/v1/tenant/delete", { ...asked, dry_run: true });
  expect(preview.body.found).toMatchObject({ contacts: 3, ledgers: expect.any(Number), articles: expect.any(Number), "files files": 1 });
  const { status, body } = await caller.post("/v1/tenant/delete", asked);
  expect(status, JSON.stringify(body)).toBe(202);
  // Both tokens were used a moment ago.
  expectProblem(await caller.ask("one more"), 401, "unauthorized");
  expectProblem(await colleague.ask("one more"), 401, "unauthorized");
  const row = () => env.DB.prepare("SELECT status, error FROM millrace_instances WHERE id = ?1").bind(body.instance_id).first<Json>();
  expect(await until(row, ({ status }) => status === "complete" || status === "errored")).toEqual({ status: "complete", error: null });

  const words = [caller.tenantId, secret, names.brand ?? "", names.account ?? "", names.endpoint_id ?? ""];
  const left = (await everything()).filter(({ place, text }) => words.some((word) => `${place}\n${text}`.includes(word)));
  expect([...new Set(left.map(({ place }) => /^(table \w+|\w+)/.exec(place)?.[0]))].sort()).toEqual(STAYS);
  expect(left.filter(({ place, text }) => place.startsWith("table") && !text.includes(body.instance_id))).toEqual([]);
  expect(await env.DB.prepare("SELECT 1 FROM millrace_instances WHERE id = ?1").bind(running).first()).toBeNull();
  await expect(env.RESEARCH_KEYWORD.get(names.correlation_id ?? "")).rejects.toThrow();
  const { items } = (await (await callerWith(["read"], caller.tenantId)).get("/v1/audit")).body;
  expect(items).toMatchObject([{ verb: "delete_tenant", actor: "ada", target: caller.tenantId, reason: asked.reason, result: "applied" }]);
  expect(items[0].detail.removed).toMatchObject({ contacts: 3, "archive files": 1 });
  expect(await everythingOf(stays)).toEqual(before);
});

it("of two concurrent deletions of a tenant the older continues, and the other ends", { timeout: 120_000 }, async () => {
  await unhurried("DELETE_TENANT");
  const caller = await callerWith();
  const { tenantId } = caller;
  const colleague = await callerWith(["operate"], tenantId);
  await bring(caller, [{ contact_id: fresh("c"), email: "ada@example.com" }]);
  const asked = { tenant: tenantId, reason: "the contract has ended", dry_run: false };
  const answers = await Promise.all(
    [caller, colleague].map((one, index) => one.post("/v1/tenant/delete", { ...asked, request: `r${index}` })),
  );
  expect(answers.map(({ status }) => status)).toEqual([202, 202]);
  const rows = async () =>
    (await env.DB.prepare("SELECT id, status, accepted_at FROM millrace_instances WHERE tenant_id = ?1").bind(tenantId).all<Json>())
      .results;
  const [left, ...others] = await until(rows, (found) =>
    found.every(({ status }) => ["complete", "errored", "terminated"].includes(status)),
  );
  expect(others).toEqual([]);
  expect(left).toMatchObject({ status: "complete" });
  const audited = await env.DB.prepare("SELECT instance_id, detail FROM millrace_actions WHERE tenant_id = ?1").bind(tenantId).all<Json>();
  expect(audited.results).toMatchObject([{ instance_id: left?.id, detail: expect.stringContaining('"contacts":1') }]);
  expect(await env.DB.prepare("SELECT 1 FROM contacts WHERE tenant_id = ?1").bind(tenantId).first()).toBeNull();
});

it("two clicks with two reasons are one deletion of a tenant while it runs; a later deletion needs its own name", {
  timeout: 120_000,
}, async () => {
  await unhurried("DELETE_TENANT");
  const caller = await callerWith();
  const { tenantId } = caller;
  const colleague = await callerWith(["operate"], tenantId);
  const asked = (one: Caller, reason: string) => one.post("/v1/tenant/delete", { tenant: tenantId, reason, dry_run: false });
  const clicks = await Promise.all([asked(caller, "the contract has ended"), asked(colleague, "they asked us to")]);
  expect(clicks.map(({ status }) => status)).toEqual([202, 202]);
  expect(clicks.map(({ body }) => body.replayed).toSorted()).toEqual([false, true]);
  const [id, other] = clicks.map(({ body }) => body.instance_id);
  expect(other).toBe(id);
  const row = () => env.DB.prepare("SELECT status FROM millrace_instances WHERE id = ?1").bind(id).first<Json>();
  expect(await until(row, ({ status }) => status === "complete" || status === "errored")).toEqual({ status: "complete" });
  expectProblem(await asked(await callerWith(["operate"], tenantId), "once more"), 422, "idempotency_key_reused");
});

it("a deletion of a tenant requires an operator", async () => {
  const caller = await callerWith(["enqueue", "read"]);
  expectProblem(await caller.post("/v1/tenant/delete", { tenant: caller.tenantId, reason: fresh(), dry_run: false }), 403, "forbidden");
});
