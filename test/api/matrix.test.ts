import { beforeAll, describe, expect, it } from "vitest";
import { ALL_SCOPES, type Answer, type Caller, callerWith, expectProblem, fresh, type Json, send } from "./client.ts";
import { type Operation, operations } from "./operations.ts";
import { seedApproval, seedBatch, seedEffect, seedInstance, seedLetter } from "./seed.ts";

/** The owner's items, by the prefix of the paths that name them: a route with another kind of item needs a line here. */
async function possessions({ tenantId, call, post }: Caller): Promise<Record<string, Record<string, string>>> {
  const instance = await seedInstance(tenantId, {
    status: "errored",
    error: { step: "s", code: "step_failed", message: "m", attempts: 1 },
  });
  const batch = await seedBatch(tenantId, instance);
  const brand = fresh("brand");
  await call("PUT", `/v1/brands/${brand}`, {});
  const schedule = fresh("schedule");
  const weekly = { cron: "0 9 * * 1", time_zone: "UTC", command: { type: "brand.audit", payload: { brand } }, reason: "because" };
  await call("PUT", `/v1/schedules/${schedule}`, weekly);
  const { body: webhook } = await post("/v1/webhooks", {
    url: "http://127.0.0.1:1/hook",
    fact_types: ["outcome"],
    description: "A test",
  });
  const account = fresh("account");
  await call("PUT", `/v1/budgets/${account}`, { limit_cents: 100 });
  const { body: token } = await post("/v1/tokens", { actor: "grace", scopes: ["read"], reason: "because" });
  const givenUp = { verb: "skip", ids: [await seedLetter(tenantId)], reason: "because" };
  const { body: bulk } = await post("/v1/bulk-actions", givenUp);
  const names = {
    lane: "none",
    type: "webhook.switched",
    name: "none",
    room: "none",
    entity: fresh("entity"),
    hold: "none",
    version: "1",
    generation: "1",
  };
  const nothing = { id: fresh("id"), key: fresh("key"), delivery: "f".repeat(32), ...names };
  const of = (has: Record<string, string>) => ({ ...nothing, ...has });
  for (const id of [webhook.id, token.id, bulk.id]) expect(id).toBeTypeOf("string");
  return {
    "/v1/instances": of({ id: instance }),
    "/v1/correlations": of({ id: `job-${instance}` }),
    "/v1/keys": of({ key: instance }),
    "/v1/effects": of({ key: await seedEffect(await seedInstance(tenantId, { status: "in_doubt" })) }),
    "/v1/dead-letters": of({ id: await seedLetter(tenantId) }),
    "/v1/approvals": of({ id: await seedApproval(tenantId) }),
    "/v1/batches": of({ id: batch }),
    "/v1/brands": of({ brand }),
    "/v1/schedules": of({ name: schedule }),
    "/v1/webhooks": of({ id: webhook.id }),
    "/v1/budgets": of({ account }),
    "/v1/tokens": of({ id: token.id }),
    "/v1/bulk-actions": of({ id: bulk.id }),
    "/v1/alerts": nothing,
    "/v1/lanes": nothing,
    "/v1/limits": nothing,
    "/v1/locks": nothing,
    "/v1/queues": nothing,
    "/v1/workflows": nothing,
    "/v1/ledgers": nothing,
    "/v1/articles": nothing,
    "/v1/research": nothing,
    "/v1/contacts": nothing,
    "/v1/crm": nothing,
    "/v1/qualification-rules": nothing,
  };
}

let all: Operation[];
beforeAll(async () => {
  all = (await operations()).all.filter(({ scopes }) => scopes.length > 0);
});

/** Routes that answer 404 to callers without permission. */
const isHidden = ({ path }: Operation) => path.startsWith("/embedded/");

const named = ({ method, path }: Operation) => `${method} ${path}`;
const fill = (path: string, names: Record<string, string>) =>
  path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(names[name] ?? `no ${name} is known: add the owner's item in this test`));
const bodyFor = ({ path, bodies }: Operation) =>
  Object.keys(bodies).length === 0 ? undefined : { reason: "because", ...(path.endsWith("/confirm") && { output: null }) };

describe("Every route", () => {
  it("every route refuses a request without a token, or with an invalid token (401)", async () => {
    expect(all.length).toBeGreaterThan(90);
    for (const operation of all) {
      const headers: Record<string, string>[] = [{}, { authorization: `Bearer mr_${"0".repeat(16)}_${"A".repeat(43)}` }];
      for (const one of headers) {
        const { method, path } = operation;
        const answer = await send(fill(path, { version: "1", generation: "1" }), { method, headers: one });
        if (isHidden(operation)) expectProblem(answer, 404, "route_not_found");
        else expectProblem(answer, 401, "unauthorized");
      }
    }
  });

  it("every route accepts a token with one sufficient scope, and no other token", async () => {
    const names = Object.fromEntries(["id", "key", "name", "brand"].map((name) => [name, fresh(name)]));
    const wrong: string[] = [];
    for (const scope of ALL_SCOPES) {
      const caller = await callerWith([scope]);
      for (const operation of all) {
        const isEnough = operation.scopes.some((needed) => needed.every((one) => one === scope));
        const { method, path } = operation;
        const { status, body } = await caller.call(
          method,
          fill(path, { version: "1", generation: "1", ...names }),
          Object.keys(operation.bodies).length > 0 ? {} : undefined,
        );
        const lacks = body.code === "forbidden" && operation.scopes.flat().some((one) => body.detail.includes(`\`${one}\``));
        const isRefused = (isHidden(operation) && status === 404) || (status === 403 && lacks);
        if (isRefused === isEnough || status === 401) wrong.push(`${named(operation)} with ${scope} is answered ${status}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("every route answers for another tenant's id as for an unknown id, and changes nothing of its owner's", async () => {
    const [owner, stranger] = [await callerWith([...ALL_SCOPES]), await callerWith([...ALL_SCOPES])];
    const has = await possessions(owner);
    const before = await seenBy(owner, has);
    const wrong: string[] = [];
    for (const operation of all.filter(({ path }) => path.startsWith("/v1/") && path.includes("{"))) {
      const { method, path } = operation;
      const own = Object.entries(has).find(([start]) => path === start || path.startsWith(`${start}/`))?.[1];
      expect(own, `${named(operation)}: add a tenant's item of it in this test.`).toBeDefined();
      const nobodys = Object.fromEntries(
        Object.entries(own ?? {}).map(([name, value]) => [name, value.replaceAll(/[0-9a-f]/g, (digit) => (digit === "0" ? "1" : "0"))]),
      );
      const foreign = await stranger.call(method, fill(path, own ?? {}), bodyFor(operation));
      const unknown = await stranger.call(method, fill(path, { ...nobodys, version: "9", generation: "9" }), bodyFor(operation));
      const told = JSON.stringify(foreign.body).includes(owner.tenantId) ? "and contains the name of its owner" : "";
      // A name that callers choose may be in use by this tenant as well. The route then answers as for any name.
      const same = plain(foreign, own) === plain(unknown, nobodys);
      if (told || !same) {
        wrong.push(`${named(operation)}: ${foreign.status} ${foreign.body.code}, unknown ${unknown.status} ${unknown.body.code}${told}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(await seenBy(owner, has)).toEqual(before);
  });
});

/** An answer without its request-specific parts: its ids, and its time. */
function plain({ status, body }: Answer, names: Record<string, string> = {}): string {
  if (status >= 400) return `${status} ${body.code}`;
  const text = JSON.stringify(body).replaceAll(/"\d{4}-\d\d-\d\dT[^"]*"|"[0-9a-f]{8}-[0-9a-f-]{27}"|"[0-9a-f]{32}"/g, '"…"');
  const long = Object.values(names).filter(({ length }) => length > 4);
  return `${status} ${long.reduce((all, name) => all.replaceAll(name, "name"), text)}`;
}

/** The owner's view of each item. */
async function seenBy(owner: Caller, has: Record<string, Record<string, string>>): Promise<Json> {
  const shown = all.filter(
    ({ method, path, parameters }) =>
      method === "GET" && /^\/v1\/[\w-]+\/\{\w+\}$/.test(path) && !parameters.some((one) => one.in === "query" && one.required),
  );
  const seen = await Promise.all(
    shown.map(async ({ path }) => {
      const names = Object.entries(has).find(([start]) => path.startsWith(`${start}/`))?.[1] ?? {};
      return [path, (await owner.get(fill(path, names))).body];
    }),
  );
  return Object.fromEntries(seen);
}
