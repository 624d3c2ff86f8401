import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { webhookRetention } from "../../src/webhooks/retention.ts";
import { callerWith } from "../api/client.ts";
import { endpoint, hookUrl, outcome, received } from "./hook.ts";

const DAY_MS = 86_400_000;

/** Runs every rule until it has nothing left to remove; answers how much each removed. */
async function prune(): Promise<Record<string, number>> {
  const removed: Record<string, number> = {};
  for (const { name, keepDays, prune } of webhookRetention) {
    removed[name] = 0;
    for (let count = 1; count > 0; removed[name] += count) count = Number(await prune(env, keepDays * DAY_MS, null));
  }
  return removed;
}

const aged = (days: number) => Date.now() - days * DAY_MS;

it("old deliveries, secrets and versions go at their age, and what is in force stays", async () => {
  const caller = await callerWith();
  const kept = await endpoint(caller);
  await outcome(caller.tenantId);
  await kept.delivery("sent");
  await caller.call("PUT", kept.path, { version: 1, url: hookUrl(kept.hook), fact_types: ["outcome"] });
  await caller.post(`${kept.path}/rotate`, { overlap_seconds: 0 });
  // What others have made old goes with the first.
  await prune();
  expect(Object.values(await prune())).toEqual([0, 0, 0, 0]);

  for (const age of [
    "webhook_deliveries SET matched_at = ?1 WHERE",
    "webhook_secrets SET valid_until = ?1 WHERE valid_until IS NOT NULL AND",
    "webhook_versions SET replaced_at = ?1 WHERE replaced_at IS NOT NULL AND",
  ]) {
    await env.DB.prepare(`UPDATE ${age} endpoint_id = ?2`).bind(aged(31), kept.id).run();
  }
  expect(Object.values(await prune())).toEqual([1, 1, 1, 0]);
  expect((await caller.get(kept.path)).body).toMatchObject({ version: 2, state: "enabled" });
  expect((await caller.get(`${kept.path}/secrets`)).body.items).toMatchObject([{ generation: 2 }]);
  expect((await caller.get(`${kept.path}/deliveries`)).body.items).toEqual([]);
  await outcome(caller.tenantId);
  expect(await received(kept.hook, 2)).toHaveLength(2);
});

it("a deleted endpoint goes with all that belonged to it", async () => {
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
