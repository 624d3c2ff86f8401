import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { batchCheck } from "../../../src/systems/batches/checks.ts";
import { fresh } from "../../api/client.ts";
import { seedBatch, seedInstance } from "../../api/seed.ts";

const run = (text: string, ...params: unknown[]) =>
  env.DB.prepare(text)
    .bind(...params)
    .run();

async function kindsOf(tenantId: string): Promise<string[]> {
  const { found } = await batchCheck.slice(env, JSON.stringify([tenantId, ""]));
  return found.filter((one) => one.tenantId === tenantId).map(({ kind }) => kind);
}

it("the reconciliation finds a batch without its instance, and a batch that counts fewer bytes than its file has; it accepts a batch with a failed instance", async () => {
  const tenantId = fresh("tenant");
  const instance = await seedInstance(tenantId, { status: "errored" });
  const batch = await seedBatch(tenantId, instance);
  await run("UPDATE batches SET state = 'running', ended_at = NULL WHERE batch_id = ?1 AND tenant_id = ?2", batch, tenantId);
  expect(await kindsOf(tenantId)).toEqual([]);
  await run("DELETE FROM millrace_instances WHERE id = ?1", instance);
  expect(await kindsOf(tenantId)).toEqual(["batch_left"]);
  await run(
    "UPDATE batches SET state = 'complete', ended_at = 1, total_bytes = 10, read_bytes = 9 WHERE batch_id = ?1 AND tenant_id = ?2",
    batch,
    tenantId,
  );
  expect(await kindsOf(tenantId)).toEqual(["batch_miscounted"]);
  await run("UPDATE batches SET read_bytes = 10 WHERE batch_id = ?1 AND tenant_id = ?2", batch, tenantId);
  expect(await kindsOf(tenantId)).toEqual([]);
});
