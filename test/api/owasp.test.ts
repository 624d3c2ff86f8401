import { env } from "cloudflare:workers";
import { tokens } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { asked } from "../systems/content/writing.ts";
import { ALL_SCOPES, callerWith, expectProblem, fresh, type Json, send } from "./client.ts";
import { operations } from "./operations.ts";
import { seedApproval, seedInstance } from "./seed.ts";

// The ten risks of the OWASP API Security Top 10 (2023), each with one exploit. Separate tests are named where they exist.
describe("OWASP API Security Top 10", () => {
  it("API1 object level authorization: another tenant's id is not found, by a read or by an action", async () => {
    // All routes: matrix.test.ts.
    const [owner, stranger] = [await callerWith(), await callerWith([...ALL_SCOPES])];
    const id = await seedInstance(owner.tenantId, { status: "errored" });
    for (const path of ["", "/steps", "/effects", "/events"]) {
      expectProblem(await stranger.get(`/v1/instances/${id}${path}`), 404, "instance_not_found");
    }
    for (const verb of ["retry", "undo"]) {
      expectProblem(await stranger.post(`/v1/instances/${id}/${verb}`, { reason: "mine now" }), 404, "instance_not_found");
    }
    expect((await owner.get(`/v1/instances/${id}`)).body.status).toBe("errored");
  });

  it("API2 authentication: a token is valid only when complete, in its header, and neither expired nor revoked", async () => {
    // Guessing is slowed down for each address: request-limits.test.ts.
    const { token, call, tenantId } = await callerWith(["read", "tokens"]);
    const as = async (authorization: string) => (await send("/v1/audit", { headers: { authorization } })).status;
    expect(await as(`Bearer ${token}`)).toBe(200);
    for (const wrong of [token, `Bearer ${token.slice(0, -1)}`, `Bearer ${token}x`, `Bearer ${token.toUpperCase()}`, "Bearer null"]) {
      expect(await as(wrong), wrong.length.toString()).toBe(401);
    }
    expectProblem(await send(`/v1/audit?token=${token}`), 401, "unauthorized");
    const old = await tokens.mint(env, { tenantId, actor: "ada", scopes: ["read"], expiresAt: Date.now() - 1 });
    expect(await as(`Bearer ${old}`)).toBe(401);
    const { body } = await call("POST", "/v1/tokens", { actor: "grace", scopes: ["read"], reason: "because" });
    expect(await as(`Bearer ${body.token}`)).toBe(200);
    expect((await call("DELETE", `/v1/tokens/${body.id}`)).status).toBeLessThan(300);
    expect(await as(`Bearer ${body.token}`)).toBe(401);
  });

  it("API3 object property level authorization: only documented fields are set, and no secret is returned", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens"]);
    const command = { type: "research.requested", payload: { brand: "acme", keyword: fresh("keyword") } };
    for (const extra of [{ tenant_id: "other" }, { status: "complete" }, { actor: "root" }, { acceptance: "x" }]) {
      expectProblem(await caller.post("/v1/commands", { ...command, ...extra }), 422, "invalid_payload");
    }
    const grant = { actor: "grace", scopes: ["read"], reason: "because" };
    expectProblem(await caller.post("/v1/tokens", { ...grant, tenant_id: "other" }), 422, "invalid_payload");
    const { body } = await caller.post("/v1/tokens", grant);
    const seen = JSON.stringify([(await caller.get("/v1/tokens")).body, (await caller.get("/v1/audit")).body]);
    expect(seen).not.toContain(body.token.split("_").slice(2).join("_"));
    const stored = await env.DB.prepare("SELECT hash FROM millrace_tokens WHERE id = ?1").bind(body.id).first<{ hash: string }>();
    expect(seen).not.toContain(stored?.hash);
  });

  it("API4 resource consumption: pages, batches, bodies and depth are bounded, and requests beyond are refused with a reason", async () => {
    // Requests of a token and of an address: request-limits.test.ts; bodies: bodies.test.ts; a tenant's limits: bounds.test.ts.
    const { all } = await operations();
    const limits = all.flatMap(({ method, path, parameters }) =>
      parameters.filter(({ name }) => name === "limit").map(({ schema }) => ({ route: `${method} ${path}`, most: schema.maximum })),
    );
    expect(limits.length).toBeGreaterThan(10);
    expect(limits.filter(({ most }) => !(most <= 1000))).toEqual([]);
    const caller = await callerWith();
    const command = { type: "research.requested", payload: { brand: "acme", keyword: "mint" } };
    expectProblem(await caller.get("/v1/instances?limit=201"), 422, "invalid_payload");
    const many = { commands: Array.from({ length: 101 }, () => command) };
    expectProblem(await caller.post("/v1/commands/batch", many), 422, "invalid_payload");
    const long = { reason: "x".repeat(200_000) };
    expectProblem(await caller.post(`/v1/instances/${"f".repeat(32)}/retry`, long), 413, "payload_too_large");
    const deep = `{"type":"research.requested","payload":${"[".repeat(200)}${"]".repeat(200)}}`;
    expect((await caller.post("/v1/commands", deep)).status).toBe(422);
  });

  it("API5 function level authorization: a token that may enqueue may not operate, read, or create tokens", async () => {
    // Every route by every scope: matrix.test.ts.
    const caller = await callerWith(["enqueue"]);
    const id = await seedInstance(caller.tenantId, { status: "errored" });
    for (const [method, path, body] of [
      ["GET", "/v1/instances"],
      ["GET", "/v1/search?q=x"],
      ["POST", `/v1/instances/${id}/retry`, { reason: "because" }],
      ["POST", "/v1/tokens", { actor: "me", scopes: ["operate"], reason: "because" }],
      ["GET", "/metrics"],
    ] as const) {
      expectProblem(await caller.call(method, path, body), 403, "forbidden");
    }
    const minter = await callerWith(["tokens"]);
    const more = await minter.post("/v1/tokens", { actor: "me", scopes: ["operate"], reason: "because" });
    expectProblem(more, 403, "forbidden");
  });

  it("API6 sensitive flows: a command sent twenty times at once is executed once, and one answer to a question counts", async () => {
    const caller = await callerWith();
    const key = fresh("order");
    const keyword = fresh("keyword");
    const answers = await Promise.all(Array.from({ length: 20 }, () => caller.ask(keyword, { "idempotency-key": key })));
    expect(new Set(answers.map(({ body }) => body.instance_id)).size).toBe(1);
    expect(answers.filter(({ body }) => !body.replayed)).toHaveLength(1);
    const approval = await seedApproval(caller.tenantId);
    const said = await Promise.all(
      ["approve", "reject", "approve"].map((verb) => caller.post(`/v1/approvals/${approval}/${verb}`, { reason: "because" })),
    );
    expect(said.filter(({ status }) => status === 202)).toHaveLength(1);
    const { body } = await caller.get("/v1/audit");
    expect(body.items.filter(({ target, result }: Json) => target === approval && result === "applied")).toHaveLength(1);
  });

  it("API7 server side request forgery: a private address is refused in every notation", async () => {
    // Every spelling, names that become private, redirects: test/systems/webhooks/guard.test.ts.
    const caller = await callerWith();
    for (const url of [
      "http://169.254.169.254/latest/meta-data/",
      "http://10.0.0.1/",
      "http://0xa000001/",
      "http://[fd00::1]/",
      "http://[::ffff:10.0.0.1]/",
      "file:///etc/passwd",
      "gopher://localhost/",
      "javascript:alert(1)",
    ]) {
      const { issues } = expectProblem(await caller.post("/v1/webhooks", { url, fact_types: ["outcome"] }), 422, "invalid_payload");
      expect(issues[0].path).toBe("url");
    }
  });

  it("API8 configuration: no response is sniffed, stored or open to other origins, and no refusal reveals internals", async () => {
    const caller = await callerWith();
    for (const path of ["/v1/instances", "/v1/instances/none", "/v1/search?q='", "/v1/nothing"]) {
      const { headers, body } = await caller.call("GET", path, undefined, { origin: "https://evil.invalid" });
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("access-control-allow-origin")).toBeNull();
      expect(headers.get("x-powered-by")).toBeNull();
      expect(JSON.stringify(body)).not.toMatch(/SQLITE|D1_ERROR|node_modules|\.ts:\d/);
    }
    expect((await send("/v1/instances", { method: "OPTIONS", headers: { origin: "https://evil.invalid" } })).status).toBeGreaterThanOrEqual(
      400,
    );
    expect((await send("/v1/instances", { method: "PATCH" })).status).toBeGreaterThanOrEqual(400);
  });

  it("API9 inventory: undocumented routes do not exist, under no other version or name", async () => {
    // openapi.test.ts tests that the document has every route.
    const { all } = await operations();
    const versions = new Set(all.map(({ path }) => /^\/(v\d+)\//.exec(path)?.[1]).filter((version) => version !== undefined));
    expect([...versions]).toEqual(["v1"]);
    const caller = await callerWith([...ALL_SCOPES]);
    for (const path of [
      "/v2/instances",
      "/v0/instances",
      "/api/v1/instances",
      "/internal",
      "/admin",
      "/debug",
      "/.env",
      "/cdn-cgi/explorer/api",
    ]) {
      expectProblem(await caller.get(path), 404, "route_not_found");
    }
    for (const path of ["/v1/Instances", "/v1//instances", "/v1/instances.json", "/v1/internal"]) {
      expectProblem(await caller.get(path), 404, "route_not_found");
    }
  });

  it("API10 consumption of APIs: an upstream's response is validated before it is used, and is plain text for every reader", async () => {
    // Every bad response: test/systems/content/answers.test.ts; markup in a response: hostile.test.ts in the same folder.
    const keyword = fresh("<script>alert(1)</script>");
    const writing = await asked(keyword);
    const { id } = await writing.reaches("complete");
    const article = await writing.caller.get(`/v1/articles/${id}`);
    expect(article.headers.get("content-type")).toBe("application/json");
    const found = await writing.caller.get(`/v1/search?q=${id}`);
    expect(found.headers.get("content-type")).toBe("application/json");
    expect(found.headers.get("x-content-type-options")).toBe("nosniff");
    if (article.body.url) expect((await send(new URL(article.body.url).pathname)).body).not.toContain("<script>alert(1)");
  });
});
