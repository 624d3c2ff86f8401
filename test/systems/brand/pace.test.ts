import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import { cycle, decided, inside, ring, stands, verdicts } from "./brand.ts";

const keywords = (brand: string, count: number) => Array.from({ length: count }, (_, index) => `${brand} keyword ${index}`);

async function allow(caller: Caller, brand: string, rate_per_second: number): Promise<void> {
  expect((await caller.call("PUT", `/v1/brands/${brand}`, { max_drafts: 500, rate_per_second })).status).toBe(200);
}

/** Requests a cycle of a brand, and sends its commands. */
async function sends(caller: Caller, brand: string, name: string, asked: string[]): Promise<void> {
  await decided(caller, await cycle(caller, { brand, cycle: name, keywords: asked }));
  await ring(caller, brand);
}

/** The earliest time of the brand's next command, in milliseconds. */
const nextAt = (caller: Caller, brand: string) =>
  inside(caller, brand, ({ sql }) => Number(sql.exec("SELECT next_at FROM agent").one().next_at));

it("a brand's command rate that was set by mistake delays no command after its correction", async () => {
  const caller = await callerWith();
  const brand = fresh("b");
  await allow(caller, brand, 0.05);
  await sends(caller, brand, "slip", keywords(brand, 60));
  expect((await nextAt(caller, brand)) - Date.now()).toBeGreaterThan(1_000_000);
  await allow(caller, brand, 100);
  await sends(caller, brand, "urgent", [`${brand} urgent`]);
  const job = async () => (await caller.get(`/v1/instances?correlation=${encodeURIComponent(`${brand}/urgent`)}`)).body.items as Json[];
  const found = await until(job, (items) => items.some(({ workflow, status }) => workflow === "research-keyword" && status === "complete"));
  expect(found).toContainEqual(expect.objectContaining({ workflow: "research-keyword", status: "complete" }));
});

it("a brand's command rate also limits the commands of its later cycles, and a changed rate applies to the next command", async () => {
  const caller = await callerWith();
  const brand = fresh("b");
  await allow(caller, brand, 0.1);
  await sends(caller, brand, "one", keywords(brand, 20));
  const first = await nextAt(caller, brand);
  await sends(caller, brand, "two", keywords(`${brand} more`, 10));
  expect((await nextAt(caller, brand)) - first).toBe(100_000);
  await allow(caller, brand, 0.2);
  const before = Date.now();
  await sends(caller, brand, "three", keywords(`${brand} other`, 4));
  const next = await nextAt(caller, brand);
  expect(next).toBeGreaterThanOrEqual(before + 25_000);
  expect(next).toBeLessThanOrEqual(Date.now() + 25_000);
});

it("a brand's commands that a deployment without their workflow refuses are deferred, and the next deployment sends them", async () => {
  const caller = await callerWith();
  const brand = fresh("b");
  const agent = brandAgentOf(env, caller.tenantId, brand);
  const deploy = (bindings: object) =>
    runInDurableObject(agent, (instance) => void Object.assign(instance, { env: { ...env, ...bindings } }));
  await deploy({ RESEARCH_KEYWORD: undefined });
  await sends(caller, brand, "bad", keywords(brand, 3));
  await stands(caller, brand, { on_their_way: 3 });
  const before = await nextAt(caller, brand);
  await ring(caller, brand);
  expect(await verdicts(caller, brand)).toEqual(keywords(brand, 3).map((keyword) => `${keyword} requested`));
  expect(await nextAt(caller, brand)).toBe(before);
  expect(await inside(caller, brand, (storage) => storage.getAlarm())).not.toBeNull();

  await deploy({});
  await ring(caller, brand);
  await stands(caller, brand, { live: 3 });
  expect(await verdicts(caller, brand)).toEqual(keywords(brand, 3).map((keyword) => `${keyword} requested`));
});
