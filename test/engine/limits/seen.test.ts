import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { limitOf } from "millrace/limits";
import { expect, it } from "vitest";
import type { LimitEnv } from "../../../packages/millrace/src/limits/client.ts";
import type { State } from "../../../packages/millrace/src/limits/plan.ts";
import { asking } from "../asking.ts";
import { fresh, probeEnv, rows, until } from "../harness.ts";

const env = probeEnv as unknown as Required<LimitEnv>;
const RULES = [
  { limit: 10, periodMs: 3_600_000 },
  { burst: 5, refill: 5, periodMs: 3_600_000 },
];
const listed = (tenantId: string) => rows<{ name: string }>("SELECT name FROM millrace_limits WHERE tenant_id = ?1", tenantId);
const isListed = (tenantId: string, count = 1) =>
  until(
    () => listed(tenantId),
    ({ length }) => length === count,
  );

it("a tenant sees the use of each rule of its limits and the last upstream refusal; another tenant sees neither", async () => {
  const [ada, stranger] = [await asking(["read"]), await asking(["read"])];
  const name = fresh("mailer");
  const limit = limitOf(env, name, RULES, { tenantId: ada.tenantId });
  await limit.take(3);
  await limitOf(env, fresh("mailer"), RULES).take();
  await isListed(ada.tenantId);
  const { body } = await ada.get("/v1/limits");
  const [window, bucket] = [
    { limit: 10, refill: null, period_seconds: 3600, used: 3 },
    { limit: 5, refill: 5, period_seconds: 3600, used: expect.closeTo(3, 1) },
  ];
  const stands = { name, rules: [window, bucket], waiting: 0, used_at: expect.any(String) };
  expect(body).toEqual({ items: [{ ...stands, paused_until: null, share: 1 }], next_cursor: null });
  expect((await stranger.get("/v1/limits")).body.items).toEqual([]);

  await limit.heed({ status: 429, headers: { "retry-after": "60" } });
  const paused = (await ada.get("/v1/limits")).body.items[0];
  expect(paused).toEqual({ ...stands, paused_until: expect.any(String), share: 0.5 });
  expect(Date.parse(paused.paused_until) - Date.now()).toBeGreaterThan(50_000);
});

it("a shared limit shows each tenant the use of all tenants, and counts waiting callers", async () => {
  const [ada, bob] = [await asking(["read"]), await asking(["read"])];
  const name = fresh("carrier");
  const of = (tenantId: string) => limitOf(env, name, [{ burst: 1, refill: 1, periodMs: 1500 }], { tenantId });
  await of(ada.tenantId).take();
  const turn = of(bob.tenantId).take();
  await isListed(bob.tenantId);
  const [seen, same] = [await ada.get("/v1/limits"), await bob.get("/v1/limits")];
  expect(seen.body.items).toMatchObject([{ name, waiting: 1, rules: [{ limit: 1, used: 1 }] }]);
  expect(same.body.items).toMatchObject([{ name, waiting: 1 }]);
  await turn;
});

it("limits are listed page by page, by name; a limit without a grant for a day is not listed", async () => {
  const ada = await asking(["read"]);
  const prefix = fresh("limit");
  const names = [1, 2, 3].map((nth) => `${prefix} ${nth}`);
  const take = (name: string) => limitOf(env, name, RULES, { tenantId: ada.tenantId }).tryTake();
  for (const name of names) await take(name);
  await isListed(ada.tenantId, 3);
  const first = (await ada.get("/v1/limits?limit=2")).body;
  const second = (await ada.get(`/v1/limits?limit=2&cursor=${first.next_cursor}`)).body;
  expect([...first.items, ...second.items].map(({ name }) => name)).toEqual(names);
  expect(second.next_cursor).toBeNull();

  const old = env.RATE_LIMIT.getByName(names[0] ?? "");
  await evictDurableObject(old);
  await runInDurableObject(old, (_, { storage }) => {
    const state = storage.kv.get<State>("state");
    storage.kv.put("state", { ...state, lastAt: Date.now() - 25 * 3_600_000 });
  });
  expect((await ada.get("/v1/limits")).body.items).toHaveLength(2);
  expect((await listed(ada.tenantId)).map(({ name }) => name)).toEqual(names.slice(1));
  await take(names[0] ?? "");
  await isListed(ada.tenantId, 3);
});
