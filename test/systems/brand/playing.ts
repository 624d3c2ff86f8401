import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { type Caller, callerWith, fresh } from "../../api/client.ts";
import { counts, cycle, heal, paidFor } from "./brand.ts";
import { Shuffler } from "./shuffler.ts";

const KEYWORDS = ["cold brew", "coffee grinders", "milk foam"];

/** A simulated brand, and its seed. */
export interface Played {
  seed: number;
  caller: Caller;
  brand: string;
}

/** A brand's cycle: its settings, messages and instances. */
export interface Play {
  settings?: object;
  /** The messages of a cycle of three keywords to itself. */
  messages: Readonly<Record<string, number>>;
  instances: number;
  /** True: all running messages are lost once, in the middle, and the agent dies. */
  isKilled?: boolean;
  /** Between two rounds, for each brand. True: its unsent messages are sent. */
  meanwhile?: (one: Played) => Promise<boolean>;
}

/** The ended instances of these tenants, and the number of instances. */
async function over(tenants: readonly string[]): Promise<{ count: number; complete: number }> {
  const row = await env.DB.prepare(
    `SELECT count(*) AS count, count(*) FILTER (WHERE status = 'complete') AS complete FROM millrace_instances
     WHERE tenant_id IN (SELECT value FROM json_each(?1))`,
  )
    .bind(JSON.stringify(tenants))
    .first<{ count: number; complete: number }>();
  return row ?? { count: 0, complete: 0 };
}

const sumOf = (counts: Record<string, number>) => Object.values(counts).reduce((sum, count) => sum + count, 0);

/** Clears an object's memory. The memory of an object that is not running is already lost. */
async function evicted(object: Parameters<typeof evictDurableObject>[0]): Promise<void> {
  await evictDurableObject(object).catch((error) => {
    if (!String(error).includes("not currently running")) throw error;
  });
}

/** Runs each seed's brand through its cycle, in its own order. */
export async function play(seeds: readonly number[], { settings, messages, instances, isKilled, meanwhile }: Play): Promise<Played[]> {
  using shuffler = new Shuffler();
  const told = await Promise.all(
    seeds.map(async (seed) => {
      const caller = await callerWith();
      const brand = fresh(`brand-${seed}`);
      shuffler.shuffle(caller.tenantId, seed);
      const put = await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, ...settings });
      expect(put.status).toBe(200);
      // Unique keywords, by which the upstreams distinguish the brands.
      await cycle(caller, { brand, cycle: "w1", keywords: KEYWORDS.map((keyword) => `${keyword} ${brand}`) });
      return { seed, caller, brand };
    }),
  );
  const tenants = told.map(({ caller }) => caller.tenantId);
  const deadline = Date.now() + 110_000;
  const dying = new Map(isKilled ? told.map((one) => [one.caller.tenantId, one]) : []);
  for (;;) {
    await shuffler.deliverSome();
    for (const { caller, brand, seed } of dying.values()) {
      // The seed determines the middle: after another number of messages for each seed.
      const given = sumOf(shuffler.counts(caller.tenantId));
      if (given < 2 + (seed % 10) * 2 || !dying.delete(caller.tenantId)) continue;
      shuffler.lose(caller.tenantId);
      await evicted(brandAgentOf(env, caller.tenantId, brand));
    }
    if (!shuffler.isEmpty) continue;
    const { count, complete } = await over(tenants);
    if (count === tenants.length * instances && complete === count) break;
    for (const one of told) if ((await meanwhile?.(one)) || isKilled) await heal(one.caller.tenantId);
    if (Date.now() > deadline) throw new Error(`${complete} of ${count} instances are complete.`);
    await scheduler.wait(25);
  }
  // The last events are sent after the end of their runs, and their duplicates after them.
  const few = () => told.some(({ caller }) => sumOf(shuffler.counts(caller.tenantId)) < sumOf(messages));
  do {
    await scheduler.wait(100);
    if (meanwhile) for (const { caller } of told) await heal(caller.tenantId);
    while (!shuffler.isEmpty) await shuffler.deliverSome();
  } while (few() && Date.now() < deadline);
  expect([...dying.keys()]).toEqual([]);
  for (const { seed, caller, brand } of told) {
    expect(shuffler.counts(caller.tenantId), `seed ${seed}`).toEqual(messages);
    expect(await counts(caller, brand), `seed ${seed}`).toEqual({ live: 3, drafts: 0, on_their_way: 0, held: 0 });
    const { body } = await caller.get(`/v1/brands/${brand}/cycles/w1`);
    const outcomes = { published: 3, rejected: 0, failed: 0, skipped: 0 };
    expect(body, `seed ${seed}`).toMatchObject({ state: "done", round: 1, counts: { ...outcomes, running: 0 }, told: outcomes });
    expect(await paidFor(brand), `seed ${seed}`).toEqual({ search: 3, text: 6 });
  }
  return told;
}
