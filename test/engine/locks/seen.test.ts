import { createExecutionContext, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { type Scope, tokens } from "millrace/operate";
import { expect, it } from "vitest";
import worker from "../../probe/worker.ts";
import { fresh, probeEnv, rows, until } from "../harness.ts";
import { env, lock } from "./locked.ts";

type Body = Record<string, unknown> & { items: Record<string, unknown>[] };

async function caller(tenantId: string, scopes: readonly Scope[] = ["read", "operate"]) {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes });
  return async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const request = new Request(`http://localhost${path}`, { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) });
    const response = await worker.fetch(
      request as Request<unknown, IncomingRequestCfProperties>,
      probeEnv as unknown as Env,
      createExecutionContext(),
    );
    return { status: response.status, body: (await response.json()) as Body };
  };
}

async function holdLong({ stub, object }: ReturnType<typeof lock>, id: string): Promise<void> {
  await runInDurableObject(stub, (_, { storage }) => {
    const state = storage.kv.get<{ holder: { since: number } }>("state");
    storage.kv.put("state", { ...state, holder: { ...state?.holder, since: Date.now() - 11_000 } });
  });
  expect(await object.renew(id, 30_000)).toBe(true);
}

it("a long-held lock is listed with its holder and age, for its tenant alone, until it is released", async () => {
  const tenantId = fresh("tenant");
  const [ask, stranger] = [await caller(tenantId), await caller(fresh("tenant"))];
  const one = lock({ tenantId });
  const { id, token } = await one.takeAndDie(30_000);
  const short = lock({ tenantId });
  const takenAt = Date.now();
  await short.takeAndDie(30_000);
  await holdLong(one, id);
  const listed = await until(
    () => ask("/v1/locks"),
    ({ body }) => body.items.length > 0,
  );
  expect(listed.body).toEqual({
    items: [
      {
        name: one.name,
        holder: "dead",
        token,
        since: expect.any(String),
        age_seconds: expect.any(Number),
        until: expect.any(String),
        waiting: 0,
      },
    ],
    next_cursor: null,
  });
  expect(listed.body.items[0]?.age_seconds).toBeGreaterThanOrEqual(11);
  expect((await stranger("/v1/locks")).body.items).toEqual([]);
  expect((await stranger(`/v1/locks/${one.name}`)).body).toMatchObject({ status: 404, code: "lock_not_found" });
  const shown = (await ask(`/v1/locks/${short.name}`)).body;
  expect(shown).toMatchObject({ name: short.name, holder: "dead", age_seconds: expect.any(Number) });
  expect(shown.age_seconds).toBeLessThanOrEqual((Date.now() - takenAt) / 1000);

  await one.object.release(id);
  expect(
    await until(
      () => rows("SELECT 1 FROM millrace_locks WHERE tenant_id = ?1", tenantId),
      ({ length }) => length === 0,
    ),
  ).toEqual([]);
});

it("a lock with a dead holder is listed until its time ends", async () => {
  const tenantId = fresh("tenant");
  const ask = await caller(tenantId);
  const one = lock({ tenantId });
  const { id } = await one.takeAndDie(30_000);
  await holdLong(one, id);
  await until(
    () => rows("SELECT 1 FROM millrace_locks WHERE tenant_id = ?1", tenantId),
    ({ length }) => length === 1,
  );
  expect(await rows("SELECT 1 FROM millrace_locks WHERE tenant_id = ?1", tenantId)).toHaveLength(1);
  await runInDurableObject(one.stub, (_, { storage }) => storage.deleteAll());
  expect((await ask("/v1/locks")).body.items).toEqual([]);
  expect(await rows("SELECT 1 FROM millrace_locks WHERE tenant_id = ?1", tenantId)).toEqual([]);
});

it("an operator can break a lock with a reason: the next caller acquires the lock, and the audit has one action", async () => {
  const tenantId = fresh("tenant");
  const [ask, reader, stranger] = [await caller(tenantId), await caller(tenantId, ["read"]), await caller(fresh("tenant"))];
  const one = lock({ tenantId });
  const { token } = await one.takeAndDie(30_000);
  const path = `/v1/locks/${one.name}/break`;
  expect((await reader(path, { reason: "let me" })).status).toBe(403);
  expect((await ask(path, {})).status).toBe(422);
  expect((await stranger(path, { reason: "not mine" })).body).toMatchObject({ broken: false });
  const next = one.under(({ token: higher }) => higher);
  const broken = await ask(path, { reason: "its holder hangs" });
  expect(broken).toMatchObject({ status: 200, body: { broken: true } });
  expect(await next).toBeGreaterThan(token ?? 0);
  expect((await ask(path, { reason: "once more" })).body).toMatchObject({ broken: false });
  const audited = (await ask("/v1/audit")).body.items;
  expect(audited).toMatchObject([
    { verb: "break", target: one.name, result: "no_change", reason: "once more" },
    { id: broken.body.action_id, actor: "tess", result: "applied", reason: "its holder hangs", detail: { who: "dead", token } },
    { result: "refused", detail: { code: "invalid_payload" } },
    { result: "refused", detail: { code: "forbidden" } },
  ]);
});

it("the break of a lock is audited later when the database was unavailable", async () => {
  const tenantId = fresh("tenant");
  const ask = await caller(tenantId);
  const one = lock({ tenantId });
  await one.takeAndDie(30_000);
  const down = { prepare: () => ({ bind: () => ({}) }), batch: () => Promise.reject(new Error("down")) };
  await runInDurableObject(one.stub, (instance) => Object.assign(instance, { env: { DB: down } }));
  expect((await ask(`/v1/locks/${one.name}/break`, { reason: "while it is down" })).body).toMatchObject({ broken: true });
  expect((await ask("/v1/audit")).body.items).toEqual([]);
  await runInDurableObject(one.stub, (instance) => Object.assign(instance, { env }));
  expect(await runDurableObjectAlarm(one.stub)).toBe(true);
  expect((await ask("/v1/audit")).body.items).toMatchObject([{ verb: "break", result: "applied" }]);
});
