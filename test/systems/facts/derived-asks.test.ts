import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { errors } from "millrace";
import { describe, expect, it } from "vitest";
import { budgetOf, canSpend } from "../../../src/systems/facts/derived/budgets.ts";
import { fresh, type Json } from "../../api/client.ts";
import { howMany } from "../../full-size.ts";
import { account } from "./account.ts";
import { chances } from "./derived.ts";

// To run thousands of requests: MILLRACE_FULL_SIZE=true npx vitest run --project app test/systems/facts/derived-asks.test.ts
describe("Hundreds of concurrent requests", () => {
  const ASKS = howMany(400, 10_000);
  const WAVE = ASKS / 4;
  const LIMIT = 15 * ASKS;

  it("hundreds of concurrent requests never exceed a budget: a busy account and quiet ones, repeated keys, charges in between, and an evicted object", {
    timeout: 90_000,
  }, async () => {
    const tenantId = fresh("tenant");
    const chance = chances(10_000);
    const accounts = ["hot", "quiet-1", "quiet-2", "quiet-3"];
    for (const name of accounts) await budgetOf(env, tenantId, name).setLimit(LIMIT, "ada");
    const asks = Array.from({ length: ASKS }, (_, index) => {
      const name = chance() < 0.7 ? "hot" : (accounts[1 + Math.floor(chance() * 3)] as string);
      // One request in five repeats an earlier key, with its amount.
      const key = chance() < 0.2 ? Math.floor(chance() * (index + 1)) : index;
      return { name, key: `key-${key}`, amount_cents: 1 + ((key * 7919) % 97) };
    });

    const granted = new Map(accounts.map((name) => [name, new Map<string, number>()]));
    let [answers, replays, charged, places] = [0, 0, 0, 0];
    const one = async ({ name, key, amount_cents }: (typeof asks)[number]): Promise<void> => {
      const ask = () => canSpend(env, tenantId, name, { key, amount_cents, expires_in_seconds: 3600 });
      // If the object dies during the request, the outcome is unknown: the same key is used again.
      const answer = await ask().catch(ask);
      answers++;
      if (answer.replayed) replays++;
      if (!answer.granted || !answer.hold) return;
      granted.get(name)?.set(key, amount_cents);
      if (answer.replayed || ++places % 3 !== 0) return;
      charged += amount_cents;
      const charge = { entity: "e", sequence: places, amount_cents, hold: answer.hold };
      const settle = () => budgetOf(env, tenantId, name).settle(charge);
      await settle().catch(settle);
    };
    for (let at = 0; at < ASKS; at += WAVE) {
      const wave = Promise.all(asks.slice(at, at + WAVE).map(one));
      if (at > 0) await evictDurableObject(budgetOf(env, tenantId, "hot"));
      await wave;
    }

    expect(answers).toBe(ASKS);
    expect(replays).toBeGreaterThan(ASKS / 30);
    let spent = 0;
    for (const name of accounts) {
      const total = [...(granted.get(name)?.values() ?? [])].reduce((sum, cents) => sum + cents, 0);
      const state = await budgetOf(env, tenantId, name).state();
      expect(total, name).toBeLessThanOrEqual(LIMIT);
      expect(state.spent_cents + state.held_cents, name).toBe(total);
      expect(state, name).toMatchObject({ remaining_cents: LIMIT - total, over_cents: 0 });
      spent += state.spent_cents;
    }
    expect(spent).toBe(charged);
    // The busy account got requests above its budget, and granted the whole of it.
    expect((await budgetOf(env, tenantId, "hot").state()).remaining_cents).toBeLessThan(97);
  });

  it("hundreds of concurrent requests never exceed a budget when the object dies: callers without a response repeat their requests", {
    timeout: 60_000,
  }, async () => {
    const tenantId = fresh("tenant");
    const wave = howMany(200, 500);
    const limit = 40 * wave;
    await budgetOf(env, tenantId, "hot").setLimit(limit, "ada");
    const granted = new Map<string, number>();
    let [lost, over] = [0, 0];
    const unlessRefused = (error: unknown) => (errors.codeOf(error) ? Promise.reject(error) : undefined);
    const one = async (index: number): Promise<void> => {
      const [key, amount_cents] = [`key-${index % (3 * wave)}`, 1 + ((index % (3 * wave)) % 37)];
      for (;;) {
        const answer = await canSpend(env, tenantId, "hot", { key, amount_cents, expires_in_seconds: 3600 }).catch(unlessRefused);
        if (!answer) lost++;
        else if (!answer.granted) return;
        else return void granted.set(key, amount_cents);
      }
    };
    for (let nth = 0; nth < 4; nth++) {
      const asking = Promise.all(Array.from({ length: wave }, (_, index) => one(nth * wave + index)));
      await runInDurableObject(budgetOf(env, tenantId, "hot"), (_, state) => state.abort("It died.")).catch(() => undefined);
      await asking;
      const { held_cents } = await budgetOf(env, tenantId, "hot").state();
      over = Math.max(over, held_cents - limit);
    }
    const total = [...granted.values()].reduce((sum, cents) => sum + cents, 0);
    expect(await budgetOf(env, tenantId, "hot").state()).toMatchObject({ held_cents: total, over_cents: 0 });
    expect(over).toBeLessThanOrEqual(0);
    expect(limit - total).toBeLessThan(37);
    expect(lost).toBeGreaterThan(0);
  });

  const OVER_HTTP = howMany(400, 1_000);

  it(`${OVER_HTTP} concurrent HTTP requests for one account are granted exactly up to its limit`, async () => {
    const room = OVER_HTTP / 4;
    const { ask, state } = await account(10 * room);
    const answers: Json[] = await Promise.all(Array.from({ length: OVER_HTTP }, (_, index) => ask(10, `key-${index % (2 * room)}`)));
    const holds = new Set(answers.flatMap(({ granted, hold }) => (granted ? [hold] : [])));
    expect(holds.size).toBe(room);
    expect(await state()).toMatchObject({ held_cents: 10 * room, remaining_cents: 0, over_cents: 0 });
  });
});
