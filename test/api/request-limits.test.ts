import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { tokens } from "millrace/operate";
import { expect, it } from "vitest";
import { createApi } from "../../src/api/app.ts";
import { app } from "../../src/catalog.ts";
import { callerWith, expectProblem, fresh, type Json } from "./client.ts";

const api = createApi(app);
/**
 * The limits of wrangler.jsonc for requests without a token. Tokens have the same limits here; in wrangler.jsonc they are ten times as
 * high.
 */
const LIMIT = 200;
const AS_STRANGERS = { REQUESTS_PER_TOKEN: String(LIMIT) };
const PERIOD_MS = 10_000;
/**
 * A caller that was refused in the period in which its limit was used up: returned one period later, after the second in which leases are
 * spent, and after the fortieth second of that period.
 */
const LONGEST_WAIT_S = Math.ceil((PERIOD_MS + PERIOD_MS / 10 + PERIOD_MS / 40) / 1000);

/** The API over the real bindings, with counts of calls to the database, the bucket and the objects. */
function counted(other: Partial<Record<keyof Env | "REQUESTS_PER_TOKEN" | "REQUESTS_PER_ADDRESS", unknown>> = {}) {
  const calls = { database: 0, bucket: 0, objects: 0 };
  /** The same binding with counted calls to some of its methods; other calls are passed to the binding. */
  const counting = (name: "DB" | "PAGES" | "KEEPER" | "RATE_LIMIT", kind: keyof typeof calls, counts: string[]) =>
    new Proxy(env[name] as object, {
      get(binding, method) {
        if (counts.includes(String(method))) calls[kind]++;
        const own = Reflect.get(binding, method);
        return typeof own === "function" ? own.bind(binding) : own;
      },
    });
  const DB = counting("DB", "database", ["batch"]);
  const PAGES = counting("PAGES", "bucket", ["get", "head"]);
  const KEEPER = counting("KEEPER", "objects", ["get", "getByName"]);
  const RATE_LIMIT = counting("RATE_LIMIT", "objects", ["get", "getByName"]);
  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const request = new Request(`http://localhost${path}`, { headers });
    const response = await api.fetch(request, { ...env, DB, PAGES, KEEPER, RATE_LIMIT, ...other } as Env, createExecutionContext());
    const body: Json = await response.json().catch(() => undefined);
    return { status: response.status, headers: response.headers, body };
  };
  return { calls, ask };
}

const period = () => Math.floor(Date.now() / PERIOD_MS);

/**
 * Sends requests until one is refused, then fifty more concurrently in the same period. Returns their responses, and the calls that they
 * caused.
 */
async function onceRefused({ calls, ask }: ReturnType<typeof counted>, send: (n: number) => Parameters<typeof ask>, limit: number) {
  for (let n = 0; ; ) {
    const began = period();
    let answer = await ask(...send(n++));
    for (let sent = 1; answer.status !== 429 && sent <= limit; sent += 20) {
      [answer] = (await Promise.all(Array.from({ length: 20 }, () => ask(...send(n++))))).toSorted((a, b) => b.status - a.status) as [
        typeof answer,
      ];
    }
    const before = { ...calls };
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(...send(n++))));
    const asked = {
      database: calls.database - before.database,
      bucket: calls.bucket - before.bucket,
      objects: calls.objects - before.objects,
    };
    // The counts restart with each period, and so does this test.
    if (period() === began) return { answers, asked };
  }
}

const NOTHING = { database: 0, bucket: 0, objects: 0 };
const unknownToken = () => `Bearer mr_${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}_${"A".repeat(43)}`;

it.each([
  ["pages that do not exist", (n: number, from: string) => [`/pages/none/${n}`, { "cf-connecting-ip": from }] as const],
  ["the health check", (_: number, from: string) => ["/healthz", { "cf-connecting-ip": from }] as const],
  [
    "routes with unknown tokens",
    (_: number, from: string) => ["/v1/audit", { "cf-connecting-ip": from, authorization: unknownToken() }] as const,
  ],
  [
    "pages, from all addresses of one network",
    (n: number) => [`/pages/none/${n}`, { "cf-connecting-ip": `2001:db8:7:9::${n.toString(16)}` }] as const,
  ],
])("fifty requests without a token cause no call once they are refused: %s", async (what, request) => {
  const from = `203.0.113.${what.length}`;
  const { answers, asked } = await onceRefused(counted(), (n) => [...request(n, from)], LIMIT);
  for (const answer of answers) {
    expectProblem(answer, 429, "rate_limited");
    expect(answer.headers.get("retry-after")).toBe("10");
    expect(answer.headers.get("ratelimit")).toBe('"address";r=0;t=10');
  }
  expect(asked).toEqual(NOTHING);
});

it("a client whose page requests are refused still gets the health check, is accepted with a valid token, and delays no other address", async () => {
  const [door, from] = [counted(), "203.0.113.90"];
  const { token } = await callerWith();
  await onceRefused(door, (n) => [`/pages/none/${n}`, { "cf-connecting-ip": from }], LIMIT);
  expect((await door.ask("/healthz", { "cf-connecting-ip": from })).status).toBe(200);
  expect((await door.ask("/v1/audit", { "cf-connecting-ip": from, authorization: `Bearer ${token}` })).status).toBe(200);
  expect((await door.ask("/pages/none", { "cf-connecting-ip": "203.0.113.91" })).status).toBe(404);
});

it("a token has its own limit, for all addresses together", async () => {
  const [one, other] = [await callerWith(["read"]), await callerWith(["read"])];
  const door = counted(AS_STRANGERS);
  // A forbidden route has no further cost: the count comes first.
  const use = (token: string, n: number) =>
    ["/v1/schedules/x/run", { authorization: `Bearer ${token}`, "cf-connecting-ip": `198.51.100.${n % 200}` }] as const;
  const { answers, asked } = await onceRefused(door, (n) => [...use(one.token, n)], LIMIT);
  for (const answer of answers) {
    expectProblem(answer, 429, "rate_limited");
    const seconds = answer.headers.get("retry-after");
    expect(Number(seconds)).toBeGreaterThan(0);
    expect(Number(seconds)).toBeLessThanOrEqual(LONGEST_WAIT_S);
    expect(answer.headers.get("ratelimit")).toBe(`"token";r=0;t=${seconds}`);
    expect(answer.headers.get("ratelimit-policy")).toBe('"token";q=200;w=10');
  }
  expect(asked).toEqual(NOTHING);
  expect((await door.ask(...use(other.token, 1))).status).toBe(405);
}, 120_000);

it("a response to a token has the remainder of its limit, without a further call; refused and other responses have their own remainder", async () => {
  const { token } = await callerWith(["read"]);
  const door = counted({ REQUESTS_PER_TOKEN: "1000" });
  const authorization = `Bearer ${token}`;
  for (let n = 1; n <= 50; n++) {
    const { status, headers } = await door.ask("/v1/limits", { authorization });
    expect([status, headers.get("ratelimit")]).toEqual([200, `"token";r=${1000 - n};t=10`]);
    expect(headers.get("ratelimit-policy")).toBe('"token";q=1000;w=10');
  }
  expect(door.calls.objects).toBe(0);
  // The 51st request calls the limiter: its response has the exact remainder.
  expect((await door.ask("/v1/schedules/x/run", { authorization })).headers.get("ratelimit")).toBe('"token";r=949;t=10');
  expect(door.calls.objects).toBe(1);
  expect((await counted({ REQUESTS_PER_TOKEN: "0" }).ask("/v1/limits", { authorization })).headers.get("ratelimit")).toBeNull();
});

it("a token and its descendants share one limit", async () => {
  const first = await callerWith(["read", "tokens"]);
  const mint = () => first.post("/v1/tokens", { actor: "eve", scopes: ["read"], reason: "She looks." });
  const [{ body: heir }, { body: unused }] = [await mint(), await mint()];
  const door = counted(AS_STRANGERS);
  const use = (token: string) => ["/v1/schedules/x/run", { authorization: `Bearer ${token}` }] as const;
  expect((await door.ask(...use(heir.token))).status).toBe(405);
  const { answers } = await onceRefused(door, (n) => [...use(n % 2 ? first.token : heir.token)], LIMIT);
  for (const answer of answers) expectProblem(answer, 429, "rate_limited");
  expectProblem(await door.ask(...use(unused.token)), 429, "rate_limited");
}, 120_000);

it("a deployment can set its own limits, and the engine counts addresses when the platform does not", async () => {
  const door = counted({ STRANGER_REQUESTS: undefined, REQUESTS_PER_ADDRESS: "20", REQUESTS_PER_TOKEN: "0" });
  const { answers, asked } = await onceRefused(door, () => ["/healthz", { "cf-connecting-ip": "203.0.113.120" }], 20);
  for (const answer of answers) {
    expectProblem(answer, 429, "rate_limited");
    expect(answer.headers.get("ratelimit-policy")).toBe('"address";q=20;w=10');
  }
  expect(asked).toEqual(NOTHING);
  const { token } = await callerWith(["read"]);
  const before = door.calls.objects;
  for (let n = 0; n < 120; n++) expect((await door.ask("/v1/schedules/x/run", { authorization: `Bearer ${token}` })).status).toBe(405);
  expect(door.calls.objects).toBe(before);
});

it("an unknown token is looked up once, for any sender, and a new token is accepted at once", async () => {
  const { calls, ask } = counted();
  const authorization = unknownToken();
  expectProblem(await ask("/v1/audit", { authorization }), 401, "unauthorized");
  // The first request of an isolate also reads the applied migrations and the cells.
  const first = calls.database;
  for (let n = 0; n < 60; n++) expectProblem(await ask("/v1/audit", { authorization }), 401, "unauthorized");
  expect(calls.database).toBe(first);

  const { token } = await callerWith(["read"]);
  const wrong = `Bearer ${token.slice(0, -2)}${token.endsWith("AA") ? "BB" : "AA"}`;
  for (let n = 0; n < 60; n++) expectProblem(await ask("/v1/schedules", { authorization: wrong }), 401, "unauthorized");
  expect(calls.database).toBe(first + 1);
  expect((await ask("/v1/schedules/x/runs", { authorization: `Bearer ${token}` })).status).toBe(200);
});

it("unknown tokens evict no valid token from the cache, and evict one another", { timeout: 120_000 }, async () => {
  const good = await tokens.mint(env, { tenantId: fresh(), actor: "ada", scopes: ["read"] });
  expect(await tokens.find(env, good)).toBeDefined();
  let looks = 0;
  const batch = async () => {
    looks++;
    return [{ results: [], meta: {} }];
  };
  const noDatabase = { DB: { prepare: () => ({ bind: () => ({}) }), batch } as unknown as D1Database };
  const made = Array.from({ length: 12_000 }, () => unknownToken().slice("Bearer ".length));
  for (const token of made) await tokens.find(noDatabase, token);
  expect(looks).toBe(12_000);
  expect(await tokens.find(noDatabase, good)).toBeDefined();
  await tokens.find(noDatabase, made.at(-1) ?? "");
  expect(looks).toBe(12_000);
  await tokens.find(noDatabase, made[0] ?? "");
  expect(looks).toBe(12_001);
});

it("a deployment without limits, or with failing limits, accepts requests", async () => {
  const none = { RATE_LIMIT: undefined, STRANGER_REQUESTS: undefined };
  const failing = { limit: () => Promise.reject(new Error("no")) };
  for (const without of [none, { RATE_LIMIT: { getByName: failing }, STRANGER_REQUESTS: failing }]) {
    const { ask } = counted(without);
    const { token } = await callerWith();
    expect((await ask("/healthz", { "cf-connecting-ip": "203.0.113.99" })).status).toBe(200);
    expect((await ask("/v1/audit", { authorization: `Bearer ${token}` })).status).toBe(200);
  }
});
