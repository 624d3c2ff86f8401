import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import type { Cart } from "../../docs/examples/cart.ts";
import { dieAt, fresh, probeEnv, reaches, rows } from "../harness.ts";

const { CART } = probeEnv as unknown as { CART: DurableObjectNamespace<Cart> };
const HALF_AN_HOUR_MS = 30 * 60_000;

function cart() {
  const session = fresh("session");
  const object = CART.getByName(session);
  const inside = <T>(look: (state: DurableObjectState) => T) => runInDurableObject(object, (_, state) => look(state));
  return {
    object,
    evict: () => evictDurableObject(object),
    stored: () => inside(({ storage }) => storage.kv.get("cart")),
    alarmAt: () => inside(({ storage }) => storage.getAlarm()),
    /** Moves the last change this far into the past. The object reads that time when it starts again. */
    ages: async (ms: number) => {
      await inside(({ storage }) => {
        const state = storage.kv.get<{ changedAt: number }>("cart");
        if (state) storage.kv.put("cart", { ...state, changedAt: state.changedAt - ms });
      });
      await evictDurableObject(object);
    },
  };
}

describe("The cart of docs/objects.md", () => {
  beforeAll(async () => void (await env.DB.exec("CREATE TABLE IF NOT EXISTS cart_orders (id TEXT PRIMARY KEY, items TEXT)")));

  it("the cart of docs/objects.md keeps its changes when it is evicted between two of them, and a read stores nothing", async () => {
    const { object, evict, stored } = cart();
    expect(await object.items()).toEqual({});
    expect(await stored()).toBeUndefined();
    await object.put("tea", 2);
    await evict();
    await object.put("cup", 1);
    await evict();
    expect(await object.items()).toEqual({ tea: 2, cup: 1 });
    await object.put("tea", 0);
    await evict();
    expect(await object.items()).toEqual({ cup: 1 });
  });

  it("the cart of docs/objects.md is deleted half an hour after its last change, and not before", async () => {
    const { object, alarmAt, ages } = cart();
    await object.put("tea", 2);
    const first = await alarmAt();
    expect(Math.abs((first ?? 0) - Date.now() - HALF_AN_HOUR_MS)).toBeLessThan(10_000);
    await object.put("tea", 3);
    expect(await alarmAt()).toBe(first);
    await ages(HALF_AN_HOUR_MS / 2);
    expect(await runDurableObjectAlarm(object)).toBe(true);
    expect(await object.items()).toEqual({ tea: 3 });
    expect((await alarmAt()) ?? 0).toBeLessThan(Date.now() + HALF_AN_HOUR_MS / 2 + 1_000);
    await ages(HALF_AN_HOUR_MS / 2 + 1_000);
    expect(await runDurableObjectAlarm(object)).toBe(true);
    expect(await object.items()).toEqual({});
    expect(await alarmAt()).toBeNull();
  });

  it("the cart of docs/objects.md becomes one order, for any number of submits and after a crash during one, and is then immutable", async () => {
    const { object, evict } = cart();
    expect(await object.submit("acme")).toBeNull();
    await object.put("tea", 2);
    const death = dieAt("A02 accept committed, not answered");
    await runInDurableObject(object, (one) => expect(one.submit("acme")).rejects.toThrow("Died"));
    expect(death.died()).toBe(true);
    await evict();
    const ids = await Promise.all([object.submit("acme"), object.submit("acme")]);
    expect(new Set(ids).size).toBe(1);
    expect(await object.put("tea", 5)).toBe(false);
    expect(await reaches(ids[0] ?? "", "complete")).toBe("complete");
    const [{ order } = { order: "" }] = await rows<{ order: string }>(
      `SELECT idempotency_key AS "order" FROM millrace_instances WHERE id = ?1`,
      ids[0] ?? "",
    );
    expect(await rows("SELECT items FROM cart_orders WHERE id = ?1", order)).toEqual([{ items: '{"tea":2}' }]);
  });
});
