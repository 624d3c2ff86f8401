import { env } from "cloudflare:workers";
import { tokens } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { ALL_SCOPES, callerWith, expectProblem, fresh, type Json, send } from "./client.ts";
import { seedApproval, seedBatch, seedEffect, seedInstance, seedLetter } from "./seed.ts";

/** Every documented operation under /v1, with its documented scopes. Any one of the scopes is sufficient. */
async function operations(): Promise<{ method: string; path: string; query: string; scopes: string[] }[]> {
  const { body } = await send("/openapi.json");
  return Object.entries<Json>(body.paths)
    .filter(([path]) => path.startsWith("/v1"))
    .flatMap(([path, item]) =>
      Object.entries<Json>(item).map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        query: required(operation.parameters),
        scopes: operation.security.map(({ bearer }: Json) => bearer[0]),
      })),
    );
}

/** The required parameters of a query, with the document's example for each. */
function required(parameters: Json[] = []): string {
  const said = parameters
    .filter((one) => one.in === "query" && one.required && one.schema.examples)
    .map(({ name, schema }) => `${name}=${schema.examples[0]}`);
  return said.length === 0 ? "" : `?${said.join("&")}`;
}

/** A path that contains ids. */
const named = (path: string, id: string, key: string) =>
  path.replace("{id}", id).replace("{key}", key).replace("{type}", "webhook.switched");
const keyed = (path: string): Record<string, string> => (path.endsWith("{type}") ? { "idempotency-key": "once" } : {});

/** The required fields of some routes in addition to a reason. They are checked before the item is looked up. */
const ASKED: Record<string, object> = {
  confirm: { output: null },
  skip: { step: "s", output: null },
  move: { run_at: "2030-01-01T00:00:00Z" },
  "{type}": { payload: { endpoint_id: "e", version: 1 } },
};

const body = (method: string, path = "") =>
  method === "PATCH"
    ? { revision: 1, title: "Another" }
    : method === "POST"
      ? { reason: "because", ...(/^.v1.(effects|instances)/.test(path) && ASKED[path.split("/").at(-1) ?? ""]) }
      : undefined;

describe("A token", () => {
  it("a token is stored as a hash only", async () => {
    const { token, tenantId } = await callerWith();
    const row = await env.DB.prepare("SELECT * FROM millrace_tokens WHERE tenant_id = ?1").bind(tenantId).first();
    const [, id, secret] = /^mr_([0-9a-f]{16})_(.{43})$/.exec(token) ?? [];
    expect(row?.id).toBe(id);
    expect(JSON.stringify(row)).not.toContain(secret);
  });

  it("every route under /v1 requires a token, also an unknown route", async () => {
    for (const { method, path } of [...(await operations()), { method: "GET", path: "/v1/nothing" }]) {
      const answer = await send(path, { method });
      expect(expectProblem(answer, 401, "unauthorized").detail).toMatch(/POST \/v1\/tokens.*`npx millrace token`/);
      expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="millrace"');
      expect(answer.headers.get("cache-control")).toBe("no-store");
    }
  });

  it("a wrong, unknown, malformed or expired token gets the same refusal", async () => {
    const { token } = await callerWith();
    const expired = await tokens.mint(env, { tenantId: fresh(), actor: "ada", scopes: ["read"], expiresAt: Date.now() - 1 });
    const wrong = token.slice(0, -1) + (token.endsWith("A") ? "B" : "A");
    const answers = [];
    for (const presented of [
      `Bearer ${wrong}`,
      `Bearer mr_${"0".repeat(16)}_${"A".repeat(43)}`,
      "Bearer x",
      `Basic ${token}`,
      `Bearer ${expired}`,
    ]) {
      const answer = await send("/v1/audit", { headers: { authorization: presented } });
      answers.push(expectProblem(answer, 401, "unauthorized"));
      expect(answers.at(-1)?.detail).toMatch(/unknown, wrong or expired\. .*POST \/v1\/tokens.*`npx millrace token`/);
      expect(answer.headers.get("www-authenticate")).toContain('error="invalid_token"');
    }
    for (const problem of answers) expect(problem).toEqual(answers[0]);
  });

  it('a token without the prefix "Bearer" is refused with a hint, valid or not, and the refusal does not repeat the token', async () => {
    const { token } = await callerWith();
    for (const presented of [token, `mr_${"0".repeat(16)}_${"A".repeat(43)}`]) {
      const answer = await send("/v1/audit", { headers: { authorization: presented } });
      expect(expectProblem(answer, 401, "unauthorized").detail).toContain("`Bearer ` is missing before the token");
      expect(JSON.stringify(answer.body)).not.toContain(presented);
    }
  });

  it('a token is accepted until it expires, with "Bearer" in upper or lower case', async () => {
    const token = await tokens.mint(env, { tenantId: fresh(), actor: "ada", scopes: ["read"], expiresAt: Date.now() + 60_000 });
    expect((await send("/v1/audit", { headers: { authorization: `bearer ${token}` } })).status).toBe(200);
  });

  it("a token needs the scope that the document lists, and a refusal names the missing scope", async () => {
    for (const { method, path, scopes } of await operations()) {
      const [scope] = scopes;
      const caller = await callerWith(ALL_SCOPES.filter((one) => !scopes.includes(one)));
      const answer = await caller.call(method, path, body(method));
      expect(expectProblem(answer, 403, "forbidden").detail).toContain(`\`${scope}\``);
      expect(answer.headers.get("www-authenticate")).toContain(`scope="${scope}"`);
    }
  });

  it.each([
    ["a tenant name that is invalid in an envelope", { tenantId: "Acme Corp" }],
    ["no scope", { scopes: [] }],
    ["an unknown scope", { scopes: ["root"] }],
    ["no actor", { actor: "" }],
  ])("a token with %s is not created", async (_, wrong) => {
    const grant = { tenantId: "acme", actor: "ada", scopes: ["read"], ...wrong } as Parameters<typeof tokens.mint>[1];
    await expect(tokens.mint(env, grant)).rejects.toMatchObject({ code: "config_invalid" });
  });
});

describe("Another tenant", () => {
  it("another tenant finds none of a tenant's items on any route, and changes none", async () => {
    // A caller that may handle dead letters without a tenant, or the whole deployment, would see the dead letters of other tests.
    const [owner, stranger] = [
      await callerWith(),
      await callerWith(ALL_SCOPES.filter((scope) => !["unattributed", "observe"].includes(scope))),
    ];
    const instance = await seedInstance(owner.tenantId, {
      status: "errored",
      error: { step: "s", code: "step_failed", message: "m", attempts: 1 },
    });
    const doubtful = await seedInstance(owner.tenantId, { status: "in_doubt" });
    const effect = await seedEffect(doubtful);
    const letter = await seedLetter(owner.tenantId);
    const batch = await seedBatch(owner.tenantId, instance);
    const approval = await seedApproval(owner.tenantId);
    const before = await everything();

    for (const { method, path, query } of await operations()) {
      // These routes accept new work, or show the caller's own projection, rules, accounts and contacts, or read a body before the lookup.
      // These files test that they separate tenants: test/systems/{facts,webhooks,brand,privacy}, stream.test.ts, catalog.test.ts,
      // sign-in.test.ts, pauses.test.ts, test/engine/{schedules,limits,locks,observe,callbacks,operate/bulk} and tokens.test.ts.
      const own =
        /^POST \/v1\/(commands|events|facts|batches$|bulk-actions$|tenant\/delete)|^GET \/metrics|^\w+ \/v1\/stream|^\w+ \/v1\/(alerts|queues|messages|costs|projections|qualification-rules|budgets|contacts|webhooks|schedules|brands|tokens|caller|sign-in-codes|callback-secret|limits|locks|catalog|workflows)/;
      if (own.test(`${method} ${path}`)) continue;
      const id = { "dead-letters": letter, batches: batch, approvals: approval }[path.split("/")[2] ?? ""] ?? instance;
      const answer = await stranger.call(method, named(path, id, effect) + query, body(method, path), keyed(path));
      expect(JSON.stringify(answer.body), path).not.toContain(owner.tenantId);
      if (path.includes("{")) {
        expect(answer.status, `${path}: ${JSON.stringify(answer.body)}`).toBe(404);
        const unknown = await stranger.call(method, named(path, "f".repeat(32), "nothing"), body(method, path), keyed(path));
        expect(unknown.body.code, path).toBe(answer.body.code);
      } else
        expect(
          answer.body.items.filter(({ verb, count }: Json) => verb !== "attempt" && count !== 0),
          path,
        ).toEqual([]);
    }
    expect(await everything()).toEqual(before);
    expect(new Set((await stranger.get("/v1/audit")).body.items.map(({ result }: Json) => result))).toEqual(new Set(["refused"]));

    expect((await owner.get(`/v1/instances/${instance}`)).status).toBe(200);
    expect((await owner.get("/v1/effects")).body.items).toMatchObject([{ key: effect }]);
    expect((await owner.get(`/v1/dead-letters/${letter}`)).status).toBe(200);
  });
});

async function everything() {
  const engine = ["instances", "inbox", "outbox", "dead_letters", "actions", "approvals"].map((name) => `millrace_${name}`);
  const tables = [...engine, "facts", "ledgers", "batches"];
  // Refused requests are in the audit of their caller.
  const which = (table: string) => (table === "millrace_actions" ? "WHERE result <> 'refused'" : "");
  const results = await env.DB.batch(tables.map((table) => env.DB.prepare(`SELECT * FROM ${table} ${which(table)} ORDER BY 1`)));
  return results.map(({ results }) => results);
}
