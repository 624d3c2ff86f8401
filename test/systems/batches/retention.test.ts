import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { batchRetention } from "../../../src/systems/batches/retention.ts";
import { callerWith, expectProblem, reaches } from "../../api/client.ts";
import { batchIn, completed, contactsCsv, upload } from "./batch.ts";

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
/** The engine's own retention of an instance that ended long ago. */
const pruneInstance = (id: string) =>
  env.DB.batch([
    env.DB.prepare(
      "INSERT INTO millrace_tombstones (id, fingerprint, place) SELECT unhex(id), unhex(substr(fingerprint, 1, 12)), 2592000000000 FROM millrace_instances WHERE id = ?1",
    ).bind(id),
    env.DB.prepare("DELETE FROM millrace_instances WHERE id = ?1").bind(id),
  ]);
const kept = async (tenantId: string) => (await env.PAYLOADS.list({ prefix: `batches/${tenantId}/` })).objects.length;

it("a batch is deleted after thirty days, after its instance, with all its data; its rows and its used id remain", async () => {
  const caller = await callerWith();
  const file = "contact_id,email\nc,a@example.com\nd,broken\n";
  const { batch_id: id, instance_id: instance } = await completed(caller, file);
  await reaches(caller, instance, "complete");
  // The report of the refused rows, and the rows for a retry. Their upload was deleted with the last row.
  expect(await kept(caller.tenantId)).toBe(2);
  await age(caller.tenantId, 29);
  expect(await prune()).toBe(0);
  await age(caller.tenantId, 2);
  expect(await prune()).toBe(0);
  expect(await upload(caller, file, { id })).toMatchObject({ status: 202, body: { replayed: true, state: "complete" } });
  await pruneInstance(instance);
  expect(await prune()).toBe(3);
  expect(await kept(caller.tenantId)).toBe(0);
  expectProblem(await caller.get(`/v1/batches/${id}`), 404, "batch_not_found");
  const left = await env.DB.prepare("SELECT count(*) AS n FROM contacts WHERE tenant_id = ?1").bind(caller.tenantId).first("n");
  expect(left).toBe(1);

  expectProblem(await upload(caller, file, { id }), 422, "idempotency_key_reused");
  expect((await caller.get("/v1/batches")).body.items).toEqual([]);
  expect(await kept(caller.tenantId)).toBe(0);
});

it("the keys that a cancelled reconciliation stores are deleted with it, in several slices", async () => {
  const caller = await callerWith();
  const { batch_id: id, instance_id: instance } = await completed(caller, contactsCsv(1), { operation: "reconcile" });
  await reaches(caller, instance, "complete");
  const numbers = JSON.stringify(Array.from({ length: 5001 }, (_, key) => key));
  const remember = "INSERT INTO batch_keys SELECT ?1, ?2, value FROM json_each(?3)";
  await env.DB.prepare(remember).bind(caller.tenantId, id, numbers).run();
  await age(caller.tenantId, 31);
  await pruneInstance(instance);
  // The result and the row of the batch.
  expect(await prune()).toBe(5001 + 2);
  expect(await env.DB.prepare("SELECT count(*) AS n FROM batch_keys WHERE tenant_id = ?1").bind(caller.tenantId).first("n")).toBe(0);
  expectProblem(await caller.get(`/v1/batches/${id}`), 404, "batch_not_found");
});

it("a batch that waits for an operator is kept", async () => {
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
