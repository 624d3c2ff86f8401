import { env } from "cloudflare:workers";
import { engineRoutes } from "millrace/http";
import { describe, expect, it } from "vitest";
import { app } from "../../src/catalog.ts";
import { callerWith, expectProblem, type Json, send } from "./client.ts";

const mint = async (caller: { post(path: string, body: Json): Promise<{ body: Json }> }) =>
  String((await caller.post("/v1/sign-in-codes", { reason: "a link for ada" })).body.code);

const trade = (code: string) =>
  send("/console/sign-in", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }) });

const bearing = (token: string) => ({ authorization: `Bearer ${token}`, "content-type": "application/json" });

const asking = (token: string, path = "/v1/caller") => send(path, { headers: { authorization: `Bearer ${token}` } });

describe("A sign-in code", () => {
  it("a sign-in code is exchanged for a token with its own scopes, for twelve hours, which is listed and audited", async () => {
    const caller = await callerWith(["read", "operate", "tokens"]);
    const { status, body } = await trade(await mint(caller));
    expect(status).toBe(200);
    expect(body).toMatchObject({ tenant: caller.tenantId, scopes: ["read", "operate", "tokens"] });
    expect(Date.parse(body.expires_at) - Date.now()).toBeGreaterThan(11.9 * 3_600_000);
    expect(Date.parse(body.expires_at) - Date.now()).toBeLessThan(12.1 * 3_600_000);
    const { body: who } = await asking(body.token);
    expect(who).toEqual({
      tenant: body.tenant,
      actor: body.actor,
      scopes: body.scopes,
      expires_at: body.expires_at,
      at: expect.any(String),
    });
    const { body: listed } = await caller.get("/v1/tokens");
    expect(listed.items.map(({ id }: Json) => id)).toContain(body.id);
    const { body: audit } = await caller.get("/v1/audit");
    expect(audit.items).toContainEqual(
      expect.objectContaining({ verb: "mint", target: body.id, reason: "a link for ada", result: "applied" }),
    );
  });

  it("a sign-in code is accepted once, also for two concurrent requests", async () => {
    const caller = await callerWith(["read", "tokens"]);
    const code = await mint(caller);
    const answers = await Promise.all([trade(code), trade(code), trade(code)]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 401, 401]);
    const late = await trade(code);
    expectProblem(late, 401, "unauthorized");
    expect(late.body.detail).toContain("has been used");
    expect(late.body.detail).toContain("POST /v1/sign-in-codes");
    const { body } = await caller.get("/v1/tokens");
    expect(body.items).toHaveLength(2);
  });

  it("a sign-in code expires after ten minutes, and with its parent token", async () => {
    const caller = await callerWith(["read", "tokens"]);
    const [old, left] = [await mint(caller), await mint(caller)];
    await env.DB.prepare("UPDATE millrace_sign_in_codes SET expires_at = expires_at - 600001 WHERE tenant_id = ? AND hash = ?")
      .bind(caller.tenantId, await hashOf(old))
      .run();
    const late = await trade(old);
    expectProblem(late, 401, "unauthorized");
    expect(late.body.detail).toContain("10 minutes");
    const { body } = await trade(await mint(caller));
    const [, id = ""] = /^mr_([0-9a-f]{16})_/.exec(caller.token) ?? [];
    await caller.call("DELETE", `/v1/tokens/${id}?reason=over&descendants=true`);
    expectProblem(await trade(left), 401, "unauthorized");
    expectProblem(await asking(body.token), 401, "unauthorized");
  });

  it("a sign-in code is stored as a hash only, and an unknown code is refused with the same error", async () => {
    const caller = await callerWith(["read"]);
    const code = await mint(caller);
    const { results } = await env.DB.prepare("SELECT * FROM millrace_sign_in_codes WHERE tenant_id = ?").bind(caller.tenantId).all();
    expect(results).toHaveLength(1);
    expect(JSON.stringify(results)).not.toContain(code.slice(3));
    for (const wrong of ["mc_x", `mc_${"A".repeat(43)}`, "' OR 1=1 --"]) expectProblem(await trade(wrong), 401, "unauthorized");
    expectProblem(await trade("x".repeat(201)), 422, "invalid_payload");
  });
});

describe("A browser's token", () => {
  it("a browser's token does not count toward the limit of created tokens, for any number of sign-ins", async () => {
    const caller = await callerWith(["read", "tokens"]);
    const rest = JSON.stringify(
      Array.from({ length: 999 }, (_, nth) => `${crypto.randomUUID().slice(0, 8)}${String(nth).padStart(8, "0")}`),
    );
    const filled = `INSERT INTO millrace_tokens (id, hash, tenant_id, actor, scopes, created_at) SELECT value, printf('%064d', key), ?1, 'eve', 'read', 0 FROM json_each(?2)`;
    await env.DB.prepare(filled).bind(caller.tenantId, rest).run();
    expect((await trade(await mint(caller))).status).toBe(200);
    await env.DB.prepare("DELETE FROM millrace_tokens WHERE tenant_id = ?1 AND actor = 'eve' AND id LIKE '%00000007'")
      .bind(caller.tenantId)
      .run();
    const asked = { actor: "bob", scopes: ["read"], reason: "one more token can be created" };
    expect((await caller.post("/v1/tokens", asked)).status).toBe(201);
    expectProblem(await caller.post("/v1/tokens", asked), 409, "invalid_transition");
  });

  it("a browser's token ends when fifty newer ones of its parent exist, and is deleted when it has expired; those of other parents are kept", async () => {
    const caller = await callerWith(["read", "tokens"]);
    const other = await callerWith(["read"], caller.tenantId);
    const { body: others } = await trade(await mint(other));
    const { body: first } = await trade(await mint(caller));
    // A sign-in with the link of another sign-in: both belong to one parent token.
    const heir = {
      post: (_: string, body: Json) =>
        send("/v1/sign-in-codes", { method: "POST", headers: bearing(first.token), body: JSON.stringify(body) }),
    };
    const { body: second } = await trade(await mint(heir));
    for (let nth = 2; nth < 50; nth++) await trade(await mint(caller));
    expect((await asking(first.token)).status).toBe(200);
    await trade(await mint(caller));
    const left = async () =>
      (await caller.get("/v1/tokens?limit=200")).body.items.filter((one: Json) => one.signed_in).map((one: Json) => one.id);
    expect(await left()).toHaveLength(51);
    expect(await left()).not.toContain(first.id);
    expect(await left()).toEqual(expect.arrayContaining([second.id, others.id]));

    await env.DB.prepare("UPDATE millrace_tokens SET expires_at = 1 WHERE id = ?1").bind(others.id).run();
    await trade(await mint(caller));
    expect(await left()).not.toContain(others.id);
  });
});

describe("The console", () => {
  it("the console returns the same page at every path, and the page can run only its own script", async () => {
    for (const path of ["/console", "/console/instances", "/console/instances/abc/def"]) {
      const { status, headers, body } = await send(path);
      expect(status).toBe(200);
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
      for (const rule of ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"])
        expect(policy).toContain(rule);
      expect(policy).toContain("require-trusted-types-for 'script'; trusted-types 'none'");
      expect(body).toContain(`nonce="${/'nonce-([^']+)'/.exec(policy)?.[1]}"`);
    }
  });

  it("the console is also found with a trailing slash", async () => {
    expect((await engineRoutes(app).request("/console/", {}, env)).status).toBe(200);
  });

  it("the console's script and style have names with a content hash, and are cached permanently; other names are not found", async () => {
    const { body } = await send("/console");
    const assets = [...String(body).matchAll(/"(\/console\/assets\/[0-9a-f]{16}\.(?:js|css))"/g)].map(([, path = ""]) => path);
    expect(assets).toHaveLength(2);
    for (const path of assets) {
      const { status, headers } = await send(path);
      expect([status, headers.get("cache-control")]).toEqual([200, "public, max-age=31536000, immutable"]);
    }
    for (const none of ["0000000000000000.js", "constructor", "__proto__", "toString"])
      expectProblem(await send(`/console/assets/${none}`), 404, "route_not_found");
  });

  it("the console and the sign-in are absent when a Worker disables the console", async () => {
    const asked = async (path: string, init: RequestInit, options = {}) =>
      (await engineRoutes(app, options).request(path, init, env)).status;
    const signIn = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code: "mc_x" }) };
    for (const [path, init, there] of [
      ["/console", {}, 200],
      ["/console/instances", {}, 200],
      ["/console/sign-in", signIn, 401],
    ] as const) {
      expect(await asked(path, init)).toBe(there);
      expect(await asked(path, init, { console: false })).toBe(404);
    }
  });
});

async function hashOf(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
