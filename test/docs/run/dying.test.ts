import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { dieAt } from "millrace/testing";
import { expect, it } from "vitest";
import { acceptCommand } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../../src/catalog.ts";
import { BRAND_AGENT } from "../../../src/messages/brand.ts";
import { fresh } from "../../api/client.ts";

it.each([
  ["is executed again, because its class is `natural`,", "W03 effect done, not recorded", 2],
  ["is not executed again", "W05 recorded, step result lost", 1],
] as const)("a search %s when its process dies: %s", async (_, point, searches) => {
  const [tenantId, keyword] = [fresh("tenant"), fresh("mint")];
  const id = ids.instance(tenantId, "research-keyword", keyword);
  await using instance = await introspectWorkflowInstance(env.RESEARCH_KEYWORD, id);
  await instance.modify((run) => run.disableRetryDelays());
  const death = dieAt(point, [id]);
  // Requests of the brand's agent have no lookup first: the search is the first effect.
  const request = { type: "research.requested", payload: { brand: "acme", keyword }, idempotencyKey: keyword };
  await acceptCommand(env, app, { tenantId, source: BRAND_AGENT }, request);
  await instance.waitForStatus("complete");
  expect(death.died()).toBe(true);
  const ledger = await env.UPSTREAMS.fetch(`https://control.embedded/ledger?upstream=search&match=${keyword}`);
  expect(await ledger.json()).toMatchObject({ totals: { search: { charged: searches } } });
});
