import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json, research } from "./client.ts";

async function operations(): Promise<{ method: string; path: string; parameters: Json[] }[]> {
  const document: Json = await (await exports.default.fetch("http://localhost/openapi.json")).json();
  return Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, { parameters = [] }]) => ({ method: method.toUpperCase(), path, parameters })),
  );
}

const called = (path: string) => path.replaceAll(/\{(\w+)\}/g, (_, name) => (name === "version" ? "1" : "none"));

describe("A query", () => {
  it("that a route does not know is refused by every one of them, with its name", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed"]);
    const asked = (await operations()).filter(({ path }) => path.startsWith("/v1/"));
    expect(asked.length).toBeGreaterThan(60);
    for (const { method, path } of asked) {
      const answer = await caller.call(method, `${called(path)}?nonesuch=1`, method === "GET" ? undefined : {});
      const { issues } = expectProblem(answer, 422, "invalid_payload");
      expect([method, path, issues]).toEqual([method, path, [{ path: "nonesuch", message: expect.stringMatching(/^is not known here/) }]]);
    }
    expect((await caller.call("HEAD", "/v1/projections?nonesuch=1")).status).toBe(422);
  });

  it("with an integer that is not written in decimal digits is refused, wherever one is taken", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed"]);
    const asked = (await operations()).flatMap(({ method, path, parameters }) =>
      parameters
        .filter(({ in: place, schema }) => place === "query" && schema.type === "integer")
        .map(({ name }) => ({ method, path, name })),
    );
    expect(asked.length).toBeGreaterThan(10);
    for (const { method, path, name } of asked) {
      for (const value of ["0x10", "%205", "5%20", "", "1e1", "+5", "5.0", "99999999999999999999"]) {
        const answer = await caller.call(method, `${called(path)}?${name}=${value}`);
        expect({ path, name, value, status: answer.status }).toEqual({ path, name, value, status: 422 });
      }
    }
    expect((await caller.get("/v1/instances?limit=5")).status).toBe(200);
    expectProblem(await caller.get("/v1/instances?limit=201"), 422, "invalid_payload");
  });

  it("with a cursor that this server cannot have made is refused", async () => {
    const caller = await callerWith();
    await caller.post("/v1/commands", research(fresh("k")));
    await caller.post("/v1/commands", research(fresh("k")));
    const { next_cursor } = (await caller.get("/v1/instances?limit=1")).body;
    expect((await caller.get(`/v1/instances?cursor=${next_cursor}`)).body.items).toHaveLength(1);
    for (const cursor of ["9999999999999999.a", "8640000000000001.a", "0001.a", `0${next_cursor}`, "1", ".a", "a.a"])
      expectProblem(await caller.get(`/v1/instances?cursor=${cursor}`), 422, "invalid_payload");
  });
});

describe("What a request says of its body", () => {
  it("is not judged where there is none", async () => {
    const caller = await callerWith();
    for (const headers of [{ "content-encoding": "gzip" }, { "content-type": "text/plain; charset=utf-16" }] as Record<string, string>[])
      expect((await caller.call("GET", "/v1/instances", undefined, headers)).status).toBe(200);
  });

  it("is refused in the document's words by every route that takes one", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed"]);
    const asked = (await operations()).filter(({ method }) => method === "POST" || method === "PUT");
    for (const { method, path } of asked.filter((one) => !one.path.startsWith("/embedded")))
      expectProblem(await caller.call(method, called(path), {}, { "content-encoding": "gzip" }), 415, "unsupported_media_type");
  });
});
