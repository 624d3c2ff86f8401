import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { tokens } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { describe, expect, it, vi } from "vitest";
import { createApi } from "../../src/api/app.ts";
import { app } from "../../src/catalog.ts";
import { callerWith, expectProblem, type Json, send } from "./client.ts";

describe("Every response of the API", () => {
  it("a response has the engine's name, and nosniff; under /v1 it is never stored", async () => {
    const caller = await callerWith();
    for (const path of ["/v1/instances", "/v1/nothing", "/v1/instances/x", "/v1/audit?x=1"]) {
      expect((await caller.get(path)).headers.get("cache-control"), path).toBe("no-store");
    }
    for (const path of ["/", "/healthz", "/openapi.json", "/nothing", "/pages/none", "/v1/audit"]) {
      const { headers } = await send(path);
      expect([headers.get("x-content-type-options"), headers.get("millrace-api")], path).toEqual(["nosniff", "v1"]);
    }
  });

  it("a request to an unknown route gets a problem document", async () => {
    const caller = await callerWith();
    expectProblem(await send("/nothing"), 404, "route_not_found");
    expectProblem(await send("/openapi.json/"), 404, "route_not_found");
    expectProblem(await caller.get("/v1/nothing"), 404, "route_not_found");
    expectProblem(await caller.post("/v1/effects/x/explode", {}), 404, "route_not_found");
  });

  it("a request to a known route with another method gets the permitted methods", async () => {
    const caller = await callerWith();
    const refused = async (method: string, path: string) => {
      const answer = await caller.call(method, path);
      expectProblem(answer, 405, "method_not_allowed");
      return answer.headers.get("allow");
    };
    expect(await refused("GET", "/v1/commands")).toBe("POST");
    expect(await refused("DELETE", "/v1/instances/x")).toBe("GET, HEAD");
    expect(await refused("POST", "/embedded/faults")).toBe("PUT, DELETE");
    expect(await refused("OPTIONS", "/v1/dead-letters/x/replay")).toBe("POST");
    expect(await refused("POST", "/pages/a/b")).toBe("GET, HEAD");
  });
});

describe("GET /healthz", () => {
  it("GET /healthz reports without a token whether the database answers, and the time since the keeper's last scan", async () => {
    const { status, headers, body } = await send("/healthz");
    expect([status, body, headers.get("cache-control")]).toEqual([
      200,
      { ok: true, keeper_seconds: expect.toBeOneOf([null, expect.any(Number)]) },
      "no-store",
    ]);
    expect((await send("/healthz", { method: "HEAD" })).status).toBe(200);
  });
});

describe("A database without applied migrations", () => {
  /** The API over the real database, without the parts of its schema that these words match. */
  function without(name: string) {
    const DB = Object.create(env.DB, {
      prepare: { value: (text: string) => env.DB.prepare(text) },
      batch: {
        value: async (statements: D1PreparedStatement[]) => {
          const answers = await env.DB.batch<Json>(statements);
          return answers.map(({ results, ...rest }) => ({ ...rest, results: results.filter((row) => row.name !== name) }));
        },
      },
    });
    const api = createApi(app);
    return async (path: string, headers: Record<string, string> = {}) => {
      const response = await api.fetch(new Request(`http://localhost${path}`, { headers }), { ...env, DB }, createExecutionContext());
      return { status: response.status, headers: response.headers, body: await response.json() };
    };
  }

  it.each([
    ["the engine's", "millrace_waits_open", "0001_millrace"],
    ["the app's", "webhook_endpoints", "0001_app"],
  ])("a missing migration of %s is named by /healthz, and in the refusal of a token (500)", async (_, table, migration) => {
    const ask = without(table);
    const unhealthy = expectProblem(await ask("/healthz"), 500, "config_invalid");
    expect(unhealthy.detail).toContain(`The database lacks ${table}, which the migration ${migration} makes.`);
    expect(unhealthy.detail).toContain("millrace migrate");
    const sent: Record<string, string>[] = [{}, { authorization: "Bearer x" }, { authorization: `Bearer mr_${"a".repeat(60)}` }];
    for (const headers of sent) {
      expect(expectProblem(await ask("/v1/instances", headers), 500, "config_invalid").detail).toBe(unhealthy.detail);
    }
  });

  it("a migrated database answers 200, and 401 to an unknown token, unlike one without migrations", async () => {
    const ask = without("no table of this name");
    expect(await ask("/healthz")).toMatchObject({ status: 200, body: { ok: true } });
    expectProblem(await ask("/v1/instances", { authorization: "Bearer x" }), 401, "unauthorized");
  });
});

describe("An internal error", () => {
  /** The API over the real bindings, with a database that fails with this message. */
  async function overBroken(message: string, path: string) {
    const token = await tokens.mint(env, { tenantId: "acme", actor: "ada", scopes: ["read"] });
    const headers = { authorization: `Bearer ${token}` };
    const api = createApi(app);
    const ask = (DB: D1Database) =>
      api.fetch(new Request(`http://localhost${path}`, { headers }), { ...env, DB }, createExecutionContext());
    await ask(env.DB);
    const broken = Object.create(env.DB, {
      batch: { value: () => Promise.reject(new Error(message)) },
      prepare: { value: (text: string) => env.DB.prepare(text) },
    });
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const response = await ask(broken);
    const log = logged.mock.calls.flat().join("\n");
    logged.mockRestore();
    return { log, token, answer: { status: response.status, headers: response.headers, body: await response.json() } };
  }

  it("a database failure is answered with 503 and Retry-After", async () => {
    for (const message of ["D1_ERROR: D1 DB is overloaded. Too many requests queued.", "D1_ERROR: Exceeded maximum DB size"]) {
      const { answer } = await overBroken(message, "/v1/audit");
      expect(expectProblem(answer, 503, "unavailable").retryable).toBe(true);
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    }
    expectProblem((await overBroken("D1_ERROR: storage operation exceeded timeout", "/healthz")).answer, 503, "unavailable");
  });

  it("an error for a missing table names the migrations", async () => {
    const { answer } = await overBroken("D1_ERROR: no such table: millrace_actions: SQLITE_ERROR", "/v1/audit");
    expect(expectProblem(answer, 500, "config_invalid").detail).toContain("migrations");
    const column = await overBroken("D1_ERROR: no such column: skipped_over at offset 7: SQLITE_ERROR", "/v1/audit");
    expect(expectProblem(column.answer, 500, "config_invalid").detail).toContain("migrations");
  });

  it("an internal error is answered with 500 without its message or stack; the log has the message, and no token", async () => {
    const { answer, log, token } = await overBroken("Cannot read properties of undefined", "/v1/audit");
    expectProblem(answer, 500, "invariant");
    expect(JSON.stringify(answer.body)).not.toMatch(/undefined|\.ts|at /);
    expect(JSON.parse(log)).toEqual({
      log: "api",
      level: "error",
      code: "invariant",
      message: "Cannot read properties of undefined",
      method: "GET",
      path: "/v1/audit",
      stack: expect.arrayContaining([expect.stringMatching(/\.ts.*:\d+:\d+\)?$/)]),
    });
    expect(log).not.toContain(token);
  });
});

describe("GET /", () => {
  it("GET / describes the running engine and how to send a command", async () => {
    const { status, headers, body } = await send("/");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toContain("text/html");
    for (const { name, on } of app.workflows) for (const word of [name, on.type]) expect(body).toContain(word);
    expect(body).toContain("curl http://localhost/v1/commands");
    expect(body).toContain("mr_YOUR_TOKEN");
    expect(body).toContain("{&quot;type&quot;:&quot;research.requested&quot;,&quot;payload&quot;:{&quot;brand&quot;");
    expect(body).toContain('href="/openapi.json"');
  });

  it("GET / shows PUBLIC_URL, the address of this machine, or no address, never one from a request", async () => {
    const at = async (url: string, vars: object = {}) => {
      const door = () => createApi(app).fetch(new Request(url), { ...env, ...vars } as Env);
      return String((await send("/", {}, door)).body);
    };
    expect(await at("http://evil.example/")).toContain("curl $URL/v1/commands");
    expect(await at("http://evil.example/")).not.toContain("evil.example");
    expect(await at("http://127.0.0.1:9900/")).toContain("curl http://127.0.0.1:9900/v1/commands");
    expect(await at("http://evil.example/", { PUBLIC_URL: "https://orders.example.com/" })).toContain(
      "curl https://orders.example.com/v1/commands",
    );
  });

  it("GET / has the cache headers of every response", async () => {
    for (const path of ["/", "/problems", "/openapi.json", "/nonesuch"]) {
      expect([path, (await send(path)).headers.get("cache-control")]).toEqual([path, "no-cache"]);
    }
    expect((await send("/healthz")).headers.get("cache-control")).toBe("no-store");
  });

  it("GET / lists the systems next to the workflows, with links to existing routes", async () => {
    const { body } = await send("/");
    const named = [...body.matchAll(/<td><code>(GET|POST|PUT) (\/v1\/[^<]+)<\/code>/g)];
    const { paths } = (await send("/openapi.json")).body;
    expect(named.length).toBeGreaterThan(4);
    for (const [, method = "", path = ""] of named) expect(paths[path], `${method} ${path}`).toHaveProperty(method.toLowerCase());
  });

  it("GET / links to the console, runs no script and accepts only its own style", async () => {
    const { headers, body } = await send("/");
    const policy = headers.get("content-security-policy") ?? "";
    const [, nonce] = /style-src 'nonce-([^']+)'/.exec(policy) ?? [];
    expect(policy).toMatch(/^default-src 'none';/);
    expect(body).toContain(`<style nonce="${nonce}">`);
    expect(body).not.toMatch(/<script|style=|onclick/);
    expect(policy).not.toContain("script-src");
    expect(body).toContain('href="/console"');
    expect((await send("/")).headers.get("content-security-policy")).not.toBe(policy);
  });

  it("GET / escapes its values", async () => {
    const [first] = app.workflows;
    const evil = { ...app, workflows: [{ ...first, name: "<img src=x>" }] } as unknown as Catalog;
    const response = await createApi(evil).fetch(new Request("http://localhost/"), env, createExecutionContext());
    const text = await response.text();
    expect(text).toContain("&lt;img src=x&gt;");
    expect(text).not.toContain("<img");
  });
});

describe("GET /pages/*", () => {
  it("GET /pages/* serves a published page by its decoded path, and 304 to a client that has the current version", async () => {
    await env.PAGES.put("acme/mint & more", "<h1>Mint</h1>");
    const { status, headers, body } = await send("/pages/acme/mint%20%26%20more");
    expect([status, body]).toEqual([200, "<h1>Mint</h1>"]);
    expect(headers.get("content-security-policy")).toContain("sandbox");
    const again = await send("/pages/acme/mint%20%26%20more", { headers: { "if-none-match": headers.get("etag") ?? "" } });
    expect(again.status).toBe(304);
  });

  it("GET /pages/* returns 404 for an unpublished page", async () => {
    for (const path of ["/pages/none", "/pages/%ff", `/pages/${"x".repeat(2000)}`]) expectProblem(await send(path), 404, "page_not_found");
  });
});
