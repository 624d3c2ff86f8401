import { describe, expect, it } from "vitest";
import { operationsIn } from "../../packages/millrace/cli/operate/operations.ts";
import { builtRoutes } from "../../packages/millrace/src/http/engine-routes.ts";
import { documentOf } from "../../packages/millrace/src/http/openapi.ts";
import { ENGINE_PROBLEMS } from "../../packages/millrace/src/http/problems.ts";
import { ownRoutes } from "../../src/api/app.ts";
import { app } from "../../src/catalog.ts";
import { type Json, send } from "./client.ts";

const api = builtRoutes(app, ownRoutes(), new WeakSet());

async function documented(): Promise<Json> {
  const { status, body } = await send("/openapi.json");
  expect(status).toBe(200);
  return body;
}

function operationsOf(document: Json): { name: string; path: string; operation: Json }[] {
  return Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, path, operation })),
  );
}

describe("The OpenAPI document", () => {
  it("the OpenAPI document lists every route except the pages of the console, and no other", async () => {
    const routes = api.routes
      .filter(({ method, path }) => method !== "ALL" && !(method === "GET" && path.startsWith("/console/")))
      .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)(\{[^}]*\})?/g, "{$1}")}`);
    const operations = operationsOf(await documented()).map(({ name }) => name);
    expect([...new Set(routes)].sort()).toEqual(operations.sort());
  });

  it("the OpenAPI document is OpenAPI 3.1, and each of its references can be resolved", async () => {
    const document = await documented();
    expect(document.openapi).toBe("3.1.0");
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path ?? "");
    expect(references.length).toBeGreaterThan(0);
    for (const reference of references) {
      const target = reference.split("/").reduce((at, key) => at?.[key], document);
      expect(target, reference).toBeDefined();
    }
  });

  it("the OpenAPI document has an ETag, by which a repeated request gets 304 without a body", async () => {
    const first = await send("/openapi.json");
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
    for (const known of [etag, `"other", W/${etag}`]) {
      const { status, headers, body } = await send("/openapi.json", { headers: { "if-none-match": known } });
      expect([status, headers.get("etag"), body]).toEqual([304, etag, ""]);
    }
    expect((await send("/openapi.json", { headers: { "if-none-match": '"other"' } })).status).toBe(200);
  });

  it("the OpenAPI document has patterns without delimiters and flags, which every reader of JSON Schema accepts", async () => {
    const patterns = new Set<string>();
    JSON.stringify(await documented(), (key, value) => {
      if (key === "pattern" && typeof value === "string") patterns.add(value);
      return value;
    });
    expect(patterns.size).toBeGreaterThan(5);
    for (const pattern of patterns) {
      expect(() => new RegExp(pattern, "u"), pattern).not.toThrow();
      // Other languages have no Unicode character classes.
      expect(pattern, pattern).not.toMatch(/^\/|\/[a-z]*$|\\p\{/i);
    }
  });

  it("the OpenAPI document gives each operation a unique name and a group that is described", async () => {
    const document = await documented();
    const groups: string[] = document.tags.map(({ name }: { name: string }) => name);
    const operations = operationsOf(document);
    for (const { name, operation } of operations) {
      expect(operation.operationId, name).toMatch(/^[a-z][a-zA-Z]+$/);
      expect(groups, name).toEqual(expect.arrayContaining(operation.tags));
      expect(operation.tags, name).toHaveLength(1);
    }
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length);
    expect(groups.filter((group) => !operations.some(({ operation }) => operation.tags.includes(group)))).toEqual([]);
  });

  it("the OpenAPI document names the command of each operation under /v1 and of the engine's others, with a few exceptions", async () => {
    const operations = operationsOf(await documented());
    const named = operations.flatMap(({ operation }) => operation["x-command"] ?? []);
    expect(new Set(named).size).toBe(named.length);
    for (const command of named) expect(command).toMatch(/^[a-z]+(-[a-z]+)*( [a-z]+(-[a-z]+)*)?$/);
    const own = builtRoutes(app, {}, new WeakSet()).described.routes.map(({ path }) => path);
    const unnamed = operations.filter(({ path, operation }) => !operation["x-command"] && (path.startsWith("/v1/") || own.includes(path)));
    expect(unnamed.map(({ name }) => name).sort()).toEqual([
      // A page.
      "GET /problems",
      // Streams. `millrace instances tail` and `--wait` follow one.
      "GET /v1/batches/{id}/stream",
      "GET /v1/instances/{id}/stream",
      "GET /v1/stream",
      // The sign-in of a browser.
      "POST /console/sign-in",
    ]);
  });

  it("the OpenAPI document is the source of the engine's commands; `-u` writes them again", async () => {
    const document = documentOf(builtRoutes(app, {}, new WeakSet()).described, ENGINE_PROBLEMS);
    const lines = operationsIn(document).map((operation) => JSON.stringify(operation));
    await expect(`[\n${lines.join(",\n")}\n]\n`).toMatchFileSnapshot("../../packages/millrace/cli/operate/operations.json");
  });

  it("the OpenAPI document marks for each operation whether it needs a token", async () => {
    const open = operationsOf(await documented()).filter(({ operation }) => operation.security.length === 0);
    expect(open.map(({ name }) => name).sort()).toEqual([
      "GET /",
      "GET /healthz",
      "GET /openapi.json",
      "GET /pages/{path}",
      "GET /pages/{tenant}/{brand}/",
      "GET /pages/{tenant}/{brand}/feed.xml",
      "GET /pages/{tenant}/{brand}/{site}/",
      "GET /pages/{tenant}/{brand}/{site}/feed.xml",
      "GET /problems",
      "POST /console/sign-in",
    ]);
  });

  it("the OpenAPI document has the scope of every operation under /v1, and its refusals as problems", async () => {
    const document = await documented();
    expect(document.components.securitySchemes.bearer).toMatchObject({ type: "http", scheme: "bearer" });
    for (const { name, path, operation } of operationsOf(document)) {
      expect(operation.summary, name).toBeTruthy();
      if (path.startsWith("/v1")) {
        expect(operation.security.length, name).toBeGreaterThan(0);
        const bearer = name.includes("/v1/alerts/") ? ["observe", "operate"] : [expect.any(String)];
        for (const one of operation.security) expect(one, name).toEqual({ bearer });
        expect(Object.keys(operation.responses), name).toEqual(expect.arrayContaining(["401", "403", "500", "503"]));
      }
      for (const [status, response] of Object.entries<Json>(operation.responses)) {
        if (Number(status) < 400) continue;
        expect(response.content["application/problem+json"].schema, `${name} ${status}`).toEqual({ $ref: "#/components/schemas/Problem" });
      }
    }
  });

  it("the OpenAPI document has a description of each operation", async () => {
    for (const { name, operation } of operationsOf(await documented())) expect(operation.description, name).toMatch(/^[A-Z`].{10,}\.$/s);
  });

  it("the OpenAPI document describes every body that is read", async () => {
    for (const { name, operation } of operationsOf(await documented())) {
      if (!/^(POST|PUT)/.test(name)) continue;
      const { schema } = operation.requestBody.content["application/json"];
      for (const one of schema.anyOf ?? [schema]) expect(one.$ref ?? one.type, name).toMatch(/^(object|array|#.+)$/);
      const asksForWork =
        /\/(commands|events|facts|batches$|rebuild|research|try|asks|webhooks|edits|check|stream-tokens|sign-in$|mcp$)/.test(name);
      if (!asksForWork && name.startsWith("POST")) expect(schema.required, name).toContain("reason");
    }
  });
});
