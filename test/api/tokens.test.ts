import { env } from "cloudflare:workers";
import { type Scope, tokens } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { OWN_SCOPES } from "../../src/api/vocabulary.ts";
import { ALL_SCOPES, type Answer, callerWith, expectProblem, fresh, type Json, send } from "./client.ts";

const DAY_MS = 86_400_000;
const admin = (scopes: Scope[] = ["enqueue", "read", "operate", "tokens"], tenantId?: string) => callerWith(scopes, tenantId);
const wanted = { actor: "grace", scopes: ["read"], reason: "the dashboard needs it" };

const bearing = (token: string) => ({ authorization: `Bearer ${token}`, "content-type": "application/json" });

/** The tokens that the holder of a token can list. */
const used = async (token: string, path = "/v1/instances") => (await send(path, { headers: { authorization: `Bearer ${token}` } })).status;

describe("A token that is minted over HTTP", () => {
  it("a created token is shown once, valid at once for its scopes, and expires after 90 days by default", async () => {
    const caller = await admin();
    const { status, headers, body } = await caller.post("/v1/tokens", wanted);
    expect([status, body]).toEqual([
      201,
      {
        id: expect.stringMatching(/^[0-9a-f]{16}$/),
        token: expect.stringMatching(new RegExp(`^mr_${body.id}_[\\w-]{43}$`)),
        actor: "grace",
        scopes: ["read"],
        created_at: expect.any(String),
        expires_at: expect.any(String),
        last_used_at: null,
        signed_in: false,
      },
    ]);
    expect(headers.get("location")).toBe(`/v1/tokens/${body.id}`);
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBeCloseTo(90 * DAY_MS, -5);
    expect([await used(body.token), await used(body.token, "/v1/tokens")]).toEqual([200, 403]);

    const list = await caller.get("/v1/tokens");
    expect(list.body.items.map(({ actor }: { actor: string }) => actor)).toEqual(["grace", "ada"]);
    expect(JSON.stringify(list.body)).not.toContain(body.token.split("_").slice(2).join("_"));
    const [week] = await Promise.all([caller.post("/v1/tokens", { ...wanted, days: 7 })]);
    expect(Date.parse(week.body.expires_at) - Date.parse(week.body.created_at)).toBeCloseTo(7 * DAY_MS, -5);
  });

  it("a token can have a name of a hundred visible characters; a longer or invisible name is refused", async () => {
    const caller = await admin();
    const actor = "🐎".repeat(100);
    const { status, body } = await caller.post("/v1/tokens", { ...wanted, actor });
    expect([status, body.actor]).toEqual([201, actor]);
    for (const nobody of [`${actor}🐎`, " ", "\u200f\u202e", "\u200b \u00a0"]) {
      expectProblem(await caller.post("/v1/tokens", { ...wanted, actor: nobody }), 422, "invalid_payload");
    }
  });

  it("a token has at most the scopes of the token that created it", async () => {
    const caller = await admin(["read", "tokens"]);
    const { detail } = expectProblem(await caller.post("/v1/tokens", { ...wanted, scopes: ["read", "operate"] }), 403, "forbidden");
    expect(detail).toContain("`operate`");
    expect((await caller.get("/v1/tokens")).body.items).toHaveLength(1);
    const heir = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read", "read"] })).body;
    expect(heir.scopes).toEqual(["read", "tokens"]);
    expect(await used(heir.token, "/v1/tokens")).toBe(200);
  });

  it("a token remains valid when its parent is revoked; the audit names the parent of each token", async () => {
    const caller = await admin();
    const heir = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read"] })).body;
    const headers = { authorization: `Bearer ${heir.token}`, "content-type": "application/json" };
    const grandchild = (await send("/v1/tokens", { method: "POST", headers, body: JSON.stringify(wanted) })).body;
    expect((await caller.call("DELETE", `/v1/tokens/${heir.id}`)).status).toBe(204);
    expect([await used(heir.token), await used(grandchild.token)]).toEqual([401, 200]);
    const { items } = (await caller.get("/v1/audit")).body;
    const minted = items.filter(({ verb, detail }: Json) => verb === "mint" && detail.minted_by === heir.id);
    expect(minted.map(({ target }: Json) => target)).toEqual([grandchild.id]);
  });

  it("a token is revoked with its parent if requested, also through a deleted intermediate token", async () => {
    const caller = await admin();
    const mintBy = async (token: string, scopes = ["tokens", "read"]) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      return (await send("/v1/tokens", { method: "POST", headers, body: JSON.stringify({ ...wanted, scopes }) })).body;
    };
    const heir = await mintBy(caller.token);
    const child = await mintBy(heir.token);
    const grandchild = await mintBy(child.token);
    const other = await mintBy(caller.token);
    expect((await caller.call("DELETE", `/v1/tokens/${child.id}`)).status).toBe(204);
    expect((await caller.call("DELETE", `/v1/tokens/${heir.id}?descendants=true&reason=leaked`)).status).toBe(204);
    expect(await Promise.all([heir, child, grandchild, other].map(({ token }) => used(token)))).toEqual([401, 401, 401, 200]);
    const [row] = (await caller.get(`/v1/audit?target=${heir.id}`)).body.items;
    expect(row).toMatchObject({ verb: "revoke", reason: "leaked", detail: { actor: "grace", descendants: [grandchild.id] } });
    expect(row).toMatchObject({ before: { scopes: ["read", "tokens"] }, after: null });

    const late = await mintBy(other.token);
    expect((await caller.call("DELETE", `/v1/tokens/${other.id}`)).status).toBe(204);
    expect((await caller.call("DELETE", `/v1/tokens/${other.id}?descendants=true`)).status).toBe(204);
    expect(await used(late.token)).toBe(401);
  });

  it("a token shows its last use to the hour, and a thousand requests of an hour are one write", async () => {
    const caller = await admin();
    const { id, token } = (await caller.post("/v1/tokens", wanted)).body;
    const shown = async () => (await caller.get("/v1/tokens")).body.items.find((one: Json) => one.id === id).last_used_at;
    const before = Date.now();
    expect(await shown()).toBeNull();
    expect(await used(token)).toBe(200);
    const first = await shown();
    expect(Math.abs(Date.parse(first) - before)).toBeLessThan(30_000);
    await env.DB.prepare("UPDATE millrace_tokens SET used_at = used_at - 60000 WHERE id = ?1").bind(id).run();
    const minute = await shown();
    await Promise.all(Array.from({ length: 20 }, () => used(token)));
    expect(await shown()).toBe(minute);
  });

  it("a token expires with its parent at the latest, and so does its child", async () => {
    const caller = await admin(["read", "tokens"]);
    const heir = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read"], days: 1 })).body;
    const asHeir = (body: object) =>
      send("/v1/tokens", {
        method: "POST",
        headers: { authorization: `Bearer ${heir.token}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    const { detail } = expectProblem(await asHeir({ ...wanted, scopes: ["tokens"], days: 366 }), 403, "forbidden");
    expect(detail).toContain(heir.expires_at);
    expectProblem(await asHeir({ ...wanted, days: 2 }), 403, "forbidden");
    for (const days of [1, undefined]) expect((await asHeir({ ...wanted, days })).body.expires_at).toBe(heir.expires_at);
    expect((await caller.get("/v1/tokens")).body.items).toHaveLength(4);
  });

  it("the creation of a token with an invalid field is refused with the name of the field", async () => {
    const caller = await admin();
    for (const [wrong, path] of [
      [{ actor: "" }, "actor"],
      [{ actor: "a\u0000b" }, "actor"],
      [{ scopes: [] }, "scopes"],
      [{ scopes: ["root"] }, "scopes.0"],
      [{ days: 0 }, "days"],
      [{ days: 4000 }, "days"],
      [{ reason: " " }, "reason"],
      [{ tenant_id: "another" }, "tenant_id"],
    ] as const) {
      const { issues } = expectProblem(await caller.post("/v1/tokens", { ...wanted, ...wrong }), 422, "invalid_payload");
      expect(issues[0].path, JSON.stringify(wrong)).toBe(path);
    }
    const keyed = expectProblem(await caller.post("/v1/tokens", wanted, { "idempotency-key": "k" }), 422, "invalid_payload");
    expect(keyed.issues[0].path).toBe("Idempotency-Key");
    expect((await caller.get("/v1/tokens")).body.items).toHaveLength(1);
  });

  it("a tenant can have 1,000 tokens", async () => {
    const caller = await admin();
    await env.DB.prepare(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
       INSERT INTO millrace_tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at) SELECT printf('%016x', abs(random())), printf('%064d', i), ?1, 'ada', 'read', i, NULL FROM n`,
    )
      .bind(caller.tenantId)
      .run();
    expect(expectProblem(await caller.post("/v1/tokens", wanted), 409, "invalid_transition").detail).toContain("1000 tokens");
    await expect(tokens.mint(env, { tenantId: caller.tenantId, actor: "ada", scopes: ["read"] })).rejects.toMatchObject({
      code: "invalid_transition",
    });
    const { items, next_cursor } = (await caller.get("/v1/tokens?limit=200")).body;
    expect([items.length, typeof next_cursor]).toEqual([200, "string"]);
    expect((await caller.call("DELETE", `/v1/tokens/${items.at(-1).id}`)).status).toBe(204);
    expect((await caller.post("/v1/tokens", wanted)).status).toBe(201);
  });
});

describe("A token that is revoked", () => {
  it("a revoked token is refused, and the revocation is audited with actor and reason", async () => {
    const caller = await admin();
    const { id, token } = (await caller.post("/v1/tokens", wanted)).body;
    expect(await used(token)).toBe(200);
    expect((await caller.call("DELETE", `/v1/tokens/${id}?reason=she%20left`)).status).toBe(204);
    expect(await used(token)).toBe(401);
    expectProblem(await caller.call("DELETE", `/v1/tokens/${id}`), 404, "token_not_found");
    expect((await caller.get(`/v1/audit?target=${id}`)).body.items).toMatchObject([
      { actor: "ada", verb: "revoke", target: id, reason: "she left", result: "applied", detail: { actor: "grace" } },
      { actor: "ada", verb: "mint", target: id, reason: wanted.reason, result: "applied", detail: { actor: "grace", scopes: ["read"] } },
    ]);
    expect(JSON.stringify((await caller.get("/v1/audit")).body)).not.toContain(token.slice(20));
  });

  it("a revoked token creates no token, sign-in code or stream, also in an isolate that has it cached", async () => {
    const caller = await admin();
    const leaked = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read"] })).body;
    const by = (path: string, body: Json) => send(path, { method: "POST", headers: bearing(leaked.token), body: JSON.stringify(body) });
    const stream = (await by("/v1/stream-tokens", { path: "/v1/stream" })).body;
    expect(await used(leaked.token)).toBe(200);
    // Another isolate revokes the token: this isolate caches its row for 30 s more.
    await env.DB.prepare("DELETE FROM millrace_tokens WHERE id = ?1").bind(leaked.id).run();
    expect(await used(leaked.token)).toBe(200);
    expectProblem(await by("/v1/sign-in-codes", { reason: "again" }), 401, "unauthorized");
    expect(await used(leaked.token)).toBe(401);
    expectProblem(await by("/v1/tokens", { ...wanted, scopes: ["tokens"] }), 401, "unauthorized");
    expectProblem(await send(`/v1/stream?token=${stream.token}`), 401, "unauthorized");
    expect((await caller.get("/v1/tokens")).body.items.map(({ actor }: Json) => actor)).toEqual(["ada"]);
  });

  it("a revoked token creates nothing once its row is deleted, in every isolate", async () => {
    const caller = await admin();
    const leaked = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read"] })).body;
    const mint = () => send("/v1/tokens", { method: "POST", headers: bearing(leaked.token), body: JSON.stringify(wanted) });
    expect((await mint()).status).toBe(201);
    await env.DB.prepare("DELETE FROM millrace_tokens WHERE id = ?1").bind(leaked.id).run();
    expectProblem(await mint(), 401, "unauthorized");
    // The earlier child is found by way of the deleted token.
    expect((await caller.call("DELETE", `/v1/tokens/${leaked.id}?descendants=true`)).status).toBe(204);
    expect((await caller.get("/v1/tokens")).body.items.map(({ actor }: Json) => actor)).toEqual(["ada"]);
  });

  it("an expired token creates nothing, by the database's clock", async () => {
    const caller = await admin();
    const { token, id } = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read"] })).body;
    expect(await used(token)).toBe(200);
    await env.DB.prepare("UPDATE millrace_tokens SET expires_at = 1 WHERE id = ?1").bind(id).run();
    expectProblem(await send("/v1/tokens", { method: "POST", headers: bearing(token), body: JSON.stringify(wanted) }), 401, "unauthorized");
  });

  it("a revocation also revokes descendants that are created while it runs", { timeout: 120_000 }, async () => {
    const caller = await admin();
    for (let round = 0; round < 8; round++) {
      const leaked = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read"] })).body;
      const mint = () => send("/v1/tokens", { method: "POST", headers: bearing(leaked.token), body: JSON.stringify(wanted) });
      const before = Array.from({ length: 8 }, mint);
      const revoked = caller.call("DELETE", `/v1/tokens/${leaked.id}?descendants=true`);
      const answers = await Promise.all([...before, ...Array.from({ length: 8 }, mint)]);
      expect((await revoked).status).toBe(204);
      const minted = answers.filter(({ status }) => status === 201).map(({ body }) => body);
      expect(answers.filter(({ status }) => status !== 201 && status !== 401)).toEqual([]);
      expect(await Promise.all(minted.map(({ token }) => used(token)))).toEqual(minted.map(() => 401));
      const [row] = (await caller.get(`/v1/audit?target=${leaked.id}&verb=revoke`)).body.items;
      expect(row.detail.descendants.toSorted()).toEqual(minted.map(({ id }) => id).toSorted());
    }
    expect((await caller.get("/v1/tokens")).body.items.map(({ actor }: Json) => actor)).toEqual(["ada"]);
  });

  it("a revocation removes a descendant that was created between the read and the removal", async () => {
    const caller = await admin();
    const leaked = (await caller.post("/v1/tokens", { ...wanted, scopes: ["tokens", "read"] })).body;
    const mint = () => send("/v1/tokens", { method: "POST", headers: bearing(leaked.token), body: JSON.stringify(wanted) });
    const answers: Answer[] = [];
    const batch = async (statements: D1PreparedStatement[]) => {
      if (statements.length > 1) answers.push(await mint());
      return env.DB.batch(statements);
    };
    const DB = { prepare: (text: string) => env.DB.prepare(text), batch } as unknown as D1Database;
    expect(await tokens.revoke({ DB }, { tenantId: caller.tenantId, actor: "ada" }, leaked.id, "leaked", { descendants: true })).toBe(true);
    expect(answers.map(({ status }) => status)).toEqual([201]);
    expect(await used(answers[0]?.body.token)).toBe(401);
  });

  it("a revocation of another tenant's token is answered with 404", async () => {
    const [owner, stranger] = [await admin(), await admin([...ALL_SCOPES])];
    const { id, token } = (await owner.post("/v1/tokens", wanted)).body;
    expect((await stranger.get("/v1/tokens")).body.items).toHaveLength(1);
    expectProblem(await stranger.call("DELETE", `/v1/tokens/${id}`), 404, "token_not_found");
    expect(await used(token)).toBe(200);
  });
});

it.each([
  ["tenant_is_a_name", { tenant: "acme/x" }],
  ["tenant_is_a_name", { tenant: "-acme" }],
  ["tenant_is_a_name", { tenant: "Acme" }],
  ["scopes_are_words", { scopes: "read,operate" }],
  ["scopes_are_words", { scopes: "read  operate" }],
  ["scopes_are_words", { scopes: "read " }],
  ["scopes_are_words", { scopes: "Read" }],
  ["scopes_are_words", { scopes: "" }],
  ["actor_is_named", { actor: "" }],
])("the table of tokens refuses an invalid row from any writer: %s, %j", async (constraint, wrong) => {
  const { tenant, scopes, actor } = { tenant: fresh(), scopes: "read operate", actor: "ada", ...wrong };
  const insert = env.DB.prepare(
    "INSERT INTO millrace_tokens (id, hash, tenant_id, actor, scopes, created_at) VALUES (?1, ?2, ?3, ?4, ?5, 1)",
  ).bind(crypto.randomUUID().replaceAll("-", "").slice(0, 16), "0".repeat(64), tenant, actor, scopes);
  await expect(insert.run()).rejects.toThrow(constraint);
});

it("the table of tokens accepts every existing scope", async () => {
  await expect(tokens.mint(env, { tenantId: fresh(), actor: "ada", scopes: ALL_SCOPES }, OWN_SCOPES)).resolves.toMatch(/^mr_/);
});
