import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { batchRetention } from "../../src/batches/retention.ts";
import { callerWith, expectProblem, reaches } from "../api/client.ts";
import { batchIn, completed, upload } from "./batch.ts";

const DAY_MS = 86_400_000;
const [rule] = batchRetention;

async function prune(): Promise<number> {
  let removed = 0;
  for (let slice = 1; slice > 0; removed += slice) slice = Number(await rule?.prune(env, (rule?.keepDays ?? 0) * DAY_MS, null));
  return removed;
}

const age = (tenantId: string, days: number) =>
  env.DB.prepare("UPDATE batches SET updated_at = updated_at - ?2 WHERE tenant_id = ?1")
    .bind(tenantId, days * DAY_MS)
    .run();
const kept = async (tenantId: string) => (await env.PAYLOADS.list({ prefix: `batches/${tenantId}/` })).objects.length;

it("an ended batch goes after thirty days with all it kept; its rows, and work that is not ended, stay", async () => {
  const caller = await callerWith();
  const { batch_id: id, instance_id: instance } = await completed(caller, "contact_id,email\nc,a@example.com\nd,broken\n");
  await reaches(caller, instance, "complete");
  expect(await kept(caller.tenantId)).toBe(2);
  await age(caller.tenantId, 29);
  expect(await prune()).toBe(0);
  await age(caller.tenantId, 2);
  expect(await prune()).toBe(3);
  expect(await kept(caller.tenantId)).toBe(0);
  expectProblem(await caller.get(`/v1/batches/${id}`), 404, "batch_not_found");
  const left = await env.DB.prepare("SELECT count(*) AS n FROM contacts WHERE tenant_id = ?1").bind(caller.tenantId).first("n");
  expect(left).toBe(1);

  // Its id names that work for ever, also when its instance is pruned.
  await env.DB.batch([
    env.DB.prepare("INSERT INTO tombstones (id, fingerprint, pruned_at) SELECT id, fingerprint, 0 FROM instances WHERE id = ?1").bind(
      instance,
    ),
    env.DB.prepare("DELETE FROM instances WHERE id = ?1").bind(instance),
  ]);
  expectProblem(await upload(caller, "contact_id,email\nc,a@example.com\n", { id }), 422, "idempotency_key_reused");
  expect((await caller.get("/v1/batches")).body.items).toEqual([]);
  expect(await kept(caller.tenantId)).toBe(0);
});

it("a batch that waits for an operator stays", async () => {
  const caller = await callerWith();
  const key = `files/${caller.tenantId}/people.csv`;
  await env.PAYLOADS.put(key, "contact_id,email\n1,a@example.com\n");
  await caller.post("/v1/batches", { operation: "import", dataset: "contacts", batch_id: "gone", manifest: { key, format: "csv" } });
  await env.PAYLOADS.delete(key);
  await batchIn(caller, "gone", "errored");
  await age(caller.tenantId, 100);
  expect(await prune()).toBe(0);
  expect((await caller.get("/v1/batches/gone")).body.state).toBe("errored");
});
