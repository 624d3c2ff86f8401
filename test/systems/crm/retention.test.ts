import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { crmRetention } from "../../../src/systems/crm/retention.ts";
import { callerWith, type Json } from "../../api/client.ts";
import { bring, linkOf, people, synced } from "./crm.ts";

const MONTH_MS = 30 * 86_400_000;

it("a CRM sync is deleted with its failures when it is old and its instance is pruned; the state of its contacts is kept", async () => {
  const caller = await callerWith();
  const rows = people(caller, 3);
  await bring(caller, [...rows, { contact_id: "twin", email: rows[0]?.email ?? "" }]);
  const [old, kept] = [await synced(caller), await synced(caller)];
  await env.DB.prepare("UPDATE crm_syncs SET updated_at = updated_at - ?1 WHERE tenant_id = ?2").bind(MONTH_MS, caller.tenantId).run();
  await env.DB.prepare("DELETE FROM millrace_instances WHERE id = ?1").bind(old.instance_id).run();
  const [rule] = crmRetention;
  let removed = 0;
  for (let slice: Json = 1; slice !== 0; removed += slice) slice = await rule?.prune(env, MONTH_MS, null);
  expect(removed).toBe(2);
  expect((await caller.get("/v1/crm/syncs")).body.items).toMatchObject([{ sync_id: kept.sync_id }]);
  expect((await caller.get(`/v1/crm/syncs/${old.sync_id}/failures`)).status).toBe(404);
  expect((await caller.get(`/v1/crm/syncs/${kept.sync_id}/failures`)).body.items).toMatchObject([{ contact_id: "twin" }]);
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked" });
});
