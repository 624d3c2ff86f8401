import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import worker from "../../../src/worker.ts";
import { fresh } from "../../api/client.ts";
import { envelopeFor } from "../../api/seed.ts";

it("a command that is delivered twice is executed once, and paid for once", async () => {
  const tenantId = fresh("tenant");
  const keyword = fresh("mint");
  const body = envelopeFor(tenantId, keyword);
  const deliveries = ["first", "again"].map((id) => ({ id, timestamp: new Date(), attempts: 1, body }));
  const batch = createMessageBatch("gatherfeed-commands", deliveries);
  const ctx = createExecutionContext();
  await worker.queue(batch, env, ctx);
  expect((await getQueueResult(batch, ctx)).explicitAcks).toEqual(["first", "again"]);

  const select = env.DB.prepare("SELECT status FROM millrace_instances WHERE workflow = 'research-keyword' AND tenant_id = ?1").bind(
    tenantId,
  );
  const instances = async () => (await select.all()).results;
  await vi.waitUntil(async () => (await instances())[0]?.status === "complete", { timeout: 45_000 });
  expect(await instances()).toHaveLength(1);
  const ledger = await env.UPSTREAMS.fetch(`https://control.embedded/ledger?upstream=search&match=${keyword}`);
  expect(await ledger.json()).toMatchObject({ totals: { search: { charged: 1 } } });
});
