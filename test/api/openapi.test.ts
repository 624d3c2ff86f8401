import { describe, expect, it } from "vitest";
import { createApi } from "../../src/api/app.ts";
import { app } from "../../src/catalog.ts";
import { type Json, send } from "./client.ts";

const api = createApi(app);

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
  it("lists every route, and no other", async () => {
    const routes = api.routes
      .filter(({ method }) => method !== "ALL")
      .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)(\{[^}]*\})?/g, "{$1}")}`);
    const operations = operationsOf(await documented()).map(({ name }) => name);
    expect([...new Set(routes)].sort()).toEqual(operations.sort());
  });

  it("is OpenAPI 3.1, and each of its references leads somewhere", async () => {
    const document = await documented();
    expect(document.openapi).toBe("3.1.0");
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path ?? "");
    expect(references.length).toBeGreaterThan(0);
    for (const reference of references) {
      const target = reference.split("/").reduce((at, key) => at?.[key], document);
      expect(target, reference).toBeDefined();
    }
  });

  it("names the scope of every operation under /v1, and its refusals as problems", async () => {
    const document = await documented();
    expect(document.components.securitySchemes.bearer).toMatchObject({ type: "http", scheme: "bearer" });
    for (const { name, path, operation } of operationsOf(document)) {
      expect(operation.summary, name).toBeTruthy();
      if (path.startsWith("/v1")) {
        expect(operation.security, name).toEqual([{ bearer: [expect.any(String)] }]);
        expect(Object.keys(operation.responses), name).toEqual(expect.arrayContaining(["401", "403", "500", "503"]));
      }
      for (const [status, response] of Object.entries<Json>(operation.responses)) {
        if (Number(status) < 400) continue;
        expect(response.content["application/problem+json"].schema, `${name} ${status}`).toEqual({ $ref: "#/components/schemas/Problem" });
      }
    }
  });

  it("describes the bodies that are read", async () => {
    for (const { name, operation } of operationsOf(await documented())) {
      if (!/^(POST|PUT)/.test(name)) continue;
      const { schema } = operation.requestBody.content["application/json"];
      expect(schema, name).toMatchObject({ type: expect.stringMatching(/object|array/) });
      const asksForWork = /\/(commands|events|facts|batches$|rebuild|try|asks|webhooks|edits)/.test(name);
      if (!asksForWork && name.startsWith("POST")) expect(schema.required, name).toContain("reason");
    }
  });
});
