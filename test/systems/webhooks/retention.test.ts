import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { disableGone } from "../../../src/systems/webhooks/endpoints.ts";
import { offer } from "../../../src/systems/webhooks/offer.ts";
import { webhookRetention } from "../../../src/systems/webhooks/retention.ts";
import { type Caller, callerWith, expectProblem } from "../../api/client.ts";
import { recordedFact } from "../facts/derived.ts";
import { endpoint, hookUrl, outcome, received } from "./hook.ts";

const DAY_MS = 86_400_000;

/** Runs every rule until it has nothing left to remove; returns the number of rows removed by each. */
async function prune(): Promise<Record<string, number>> {
  const removed: Record<string, number> = {};
  for (const { name, keepDays, prune } of webhookRetention) {
    removed[name] = 0;
    for (let count = 1; count > 0; removed[name] += count) count = Number(await prune(env, keepDays * DAY_MS, null));
  }
  return removed;
}

/** Changes the time of an endpoint's change from its first version to its second, and its creation before that. */
async function replacedAt(id: string, at: number): Promise<void> {
  await env.DB.batch([
    env.DB.prepare("UPDATE webhook_versions SET created_at = ?1, changed_at = ?1 WHERE endpoint_id = ?2").bind(at - DAY_MS, id),
    env.DB.prepare("UPDATE webhook_versions SET replaced_at = ?1 WHERE endpoint_id = ?2 AND version = 1").bind(at, id),
    env.DB.prepare("UPDATE webhook_versions SET changed_at = ?1 WHERE endpoint_id = ?2 AND version = 2").bind(at, id),
  ]);
}

const aged = (days: number) => Date.now() - days * DAY_MS;

it("old deliveries, secrets and versions of endpoints are deleted at their age, and current ones are kept", async () => {
  const caller = await callerWith();
  const kept = await endpoint(caller);
  await outcome(caller.tenantId);
  await kept.delivery("sent");
  await caller.call("PUT", kept.path, { version: 1, url: hookUrl(kept.hook), fact_types: ["outcome"] });
  await caller.post(`${kept.path}/rotate`, { overlap_seconds: 0 });
  // Old rows of other tests are deleted with the first call.
  await prune();
  expect(Object.values(await prune())).toEqual([0, 0, 0, 0]);

  for (const age of [
    "webhook_deliveries SET matched_at = ?1 WHERE",
    "webhook_secrets SET valid_until = ?1 WHERE valid_until IS NOT NULL AND",
  ]) {
    await env.DB.prepare(`UPDATE ${age} endpoint_id = ?2`).bind(aged(31), kept.id).run();
  }
  await replacedAt(kept.id, aged(491));
  expect(Object.values(await prune())).toEqual([1, 1, 1, 0]);
  expect((await caller.get(kept.path)).body).toMatchObject({ version: 2, state: "enabled" });
  expect((await caller.get(`${kept.path}/secrets`)).body.items).toMatchObject([{ generation: 2 }]);
  expect((await caller.get(`${kept.path}/deliveries`)).body.items).toEqual([]);
  await outcome(caller.tenantId);
  expect(await received(kept.hook, 2)).toHaveLength(2);
});

describe("A fact with a dead letter that is replayed long after an endpoint was changed", () => {
  /** The versions of the endpoint that apply to a fact which its ledger accepted at that time. */
  async function met(tenantId: string, recorded: number): Promise<number[]> {
    const more = { recorded_at: new Date(recorded).toISOString() };
    const payload = recordedFact(tenantId, "outcome", "old", { account: "a", value_cents: 1 }, more);
    const told = { payload, envelope: { tenant_id: tenantId }, env, once: (_: string, read: () => unknown) => read() };
    return (await offer(told as unknown as Parameters<typeof offer>[0])).map(({ config_version }) => config_version);
  }

  it("a fact that is replayed late is delivered by the endpoint's version that applied when the fact was accepted", async () => {
    const caller = await callerWith();
    const { id, path, hook } = await endpoint(caller);
    await caller.call("PUT", path, { version: 1, url: hookUrl(hook), fact_types: ["outcome"] });
    await replacedAt(id, aged(480));
    await prune();
    expect(await met(caller.tenantId, aged(480) - 1000)).toEqual([1]);
    expect(await met(caller.tenantId, aged(480) + 1000)).toEqual([2]);
  });

  it("a fact that is replayed late is delivered by the oldest existing version of the endpoint, and by none if it is older than the endpoint", async () => {
    const caller = await callerWith();
    const { id, path, hook } = await endpoint(caller);
    await caller.call("PUT", path, { version: 1, url: hookUrl(hook), fact_types: ["outcome"] });
    await replacedAt(id, aged(491));
    await prune();
    expect(await met(caller.tenantId, aged(491) - 1000)).toEqual([2]);
    expect(await met(caller.tenantId, aged(493))).toEqual([]);
  });
});

it("a tenant's endpoints have at most 10,000 versions: a further change is refused with a reason, a deletion is accepted", async () => {
  const caller = await callerWith();
  const { id, path, hook } = await endpoint(caller);
  await env.DB.prepare(
    `INSERT INTO webhook_versions (tenant_id, endpoint_id, version, url, fact_types, description, state, created_at, changed_at, changed_by, replaced_at)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
     SELECT ?1, 'long ago', i, 'https://example.com', '["payout"]', '', 'enabled', 1, i, 'ada', i + 1 FROM n`,
  )
    .bind(caller.tenantId)
    .run();
  const config = { url: hookUrl(hook), fact_types: ["outcome"] };
  for (const answer of [await caller.call("PUT", path, { version: 1, ...config }), await caller.post("/v1/webhooks", config)]) {
    expect(expectProblem(answer, 409, "invalid_transition").detail).toContain("10000 versions");
  }
  expect((await caller.get(path)).body).toMatchObject({ version: 1, state: "enabled" });
  await env.DB.batch(disableGone(caller.tenantId, id, 1, "gone").map(({ text, params }) => env.DB.prepare(text).bind(...params)));
  expect((await caller.get(path)).body).toMatchObject({ version: 2, state: "disabled" });
  expect((await caller.call("DELETE", path)).body).toMatchObject({ version: 3, state: "deleted" });
  await env.DB.prepare("DELETE FROM webhook_versions WHERE tenant_id = ?1").bind(caller.tenantId).run();
});

it.each([
  ["deleted", (caller: Caller, path: string) => caller.call("DELETE", path)],
  ["enabled", (caller: Caller, path: string) => caller.call("PUT", path, { version: 1, url: hookUrl("x"), fact_types: ["payout"] })],
])("a late 410 of an endpoint's first version changes nothing of the second, which is %s", async (state, change) => {
  const caller = await callerWith();
  const { id, path } = await endpoint(caller);
  await change(caller, path);
  await env.DB.batch(disableGone(caller.tenantId, id, 1, "gone").map(({ text, params }) => env.DB.prepare(text).bind(...params)));
  expect((await caller.get(path)).body).toMatchObject({ version: 2, state, reason: null });
});

it("a deleted endpoint is kept as long as its deliveries, which could otherwise not be deleted", async () => {
  const caller = await callerWith();
  const { id, path, delivery } = await endpoint(caller);
  await outcome(caller.tenantId);
  await delivery("sent");
  await caller.call("DELETE", path);
  await env.DB.prepare("UPDATE webhook_versions SET changed_at = ?1 WHERE endpoint_id = ?2").bind(aged(61), id).run();
  await prune();
  expect((await caller.get(`${path}/deliveries`)).body.items).toHaveLength(1);
  await env.DB.prepare("UPDATE webhook_deliveries SET matched_at = ?1 WHERE endpoint_id = ?2").bind(aged(31), id).run();
  await prune();
  expect((await caller.get(path)).status).toBe(404);
  const { results } = await env.DB.prepare("SELECT 1 FROM webhook_deliveries WHERE endpoint_id = ?1").bind(id).all();
  expect(results).toEqual([]);
});

it("a deleted endpoint is deleted with all its data once its records are old", async () => {
  const caller = await callerWith();
  const { id, path } = await endpoint(caller);
  await caller.call("DELETE", path);
  await env.DB.prepare(
    "UPDATE webhook_versions SET changed_at = ?1, replaced_at = iif(replaced_at IS NULL, NULL, ?1) WHERE endpoint_id = ?2",
  )
    .bind(aged(61), id)
    .run();
  await env.DB.prepare("UPDATE webhook_secrets SET valid_until = ?1 WHERE endpoint_id = ?2").bind(aged(61), id).run();
  await prune();
  expect((await caller.get(path)).status).toBe(404);
  for (const table of ["webhook_versions", "webhook_secrets", "webhook_deliveries"]) {
    const { results } = await env.DB.prepare(`SELECT 1 FROM ${table} WHERE endpoint_id = ?1`).bind(id).all();
    expect(results, table).toEqual([]);
  }
});
