import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { completed } from "../systems/batches/batch.ts";
import { callerWith, expectProblem, fresh, type Json, research, send } from "./client.ts";

async function operations(): Promise<{ method: string; path: string; parameters: Json[] }[]> {
  const document: Json = await (await exports.default.fetch("http://localhost/openapi.json")).json();
  return Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, { parameters = [] }]) => ({ method: method.toUpperCase(), path, parameters })),
  );
}

const called = (path: string) => path.replaceAll(/\{(\w+)\}/g, (_, name) => (name === "version" ? "1" : "none"));

describe("A query", () => {
  it("a query with an unknown parameter is refused by every route, and the error has the name", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed", "observe"]);
    const asked = (await operations()).filter(({ path }) => path.startsWith("/v1/"));
    expect(asked.length).toBeGreaterThan(60);
    for (const { method, path } of asked) {
      const answer = await caller.call(method, `${called(path)}?nonesuch=1`, method === "GET" ? undefined : {});
      const { issues } = expectProblem(answer, 422, "invalid_payload");
      const unknown = { path: "nonesuch", message: expect.stringMatching(/^is not known here/) };
      expect([method, path, issues]).toEqual([method, path, expect.arrayContaining([unknown])]);
    }
    expect((await caller.call("HEAD", "/v1/projections?nonesuch=1")).status).toBe(422);
  });

  it("a query with a misspelt parameter is refused, and the error names the correct one", async () => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.get("/v1/instances?correlation_id=c"), 422, "invalid_payload");
    expect(issues).toEqual([{ path: "correlation_id", message: "is not known here: perhaps `correlation` is meant" }]);
  });

  it("a query with an integer that is not in decimal digits is refused by every route that accepts an integer", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed", "observe"]);
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

  it("a query with a repeated parameter is answered with the instruction to send it once", async () => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.get("/v1/instances?limit=1&limit=2"), 422, "invalid_payload");
    expect(issues).toEqual([{ path: "limit", message: "occurs more than once: send it once" }]);
  });

  it("a query or path that is not percent-encoded UTF-8, or contains NUL, is refused by every route", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed", "observe"]);
    const asked = (await operations()).filter(({ path }) => path.startsWith("/v1/"));
    for (const { method, path, parameters } of asked) {
      const body = method === "GET" || method === "DELETE" ? undefined : {};
      const known = parameters.filter(({ in: place }) => place === "query").map(({ name }) => name);
      const queries = known.flatMap((name) =>
        ["%ff", "n%00ul", "100%", "%E4%B8", "%ED%A0%80"].map((value) => [name, `${called(path)}?${name}=${value}`]),
      );
      const paths = path.includes("{") ? ["%ffa%20b", "100%", "%C3"].map((value) => ["path", path.replaceAll(/\{\w+\}/g, value)]) : [];
      for (const [at, address = ""] of [...queries, ...paths]) {
        const { status, body: problem } = await caller.call(method, address, body);
        expect([method, address, status, problem.issues]).toEqual([
          method,
          address,
          422,
          [{ path: at, message: expect.stringMatching(/%25|NUL/) }],
        ]);
      }
    }
  });

  it("a query with an invalid cursor is refused by every list", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed", "observe"]);
    const lists = (await operations()).filter(({ parameters }) => parameters.some(({ name }) => name === "cursor"));
    expect(lists.length).toBeGreaterThan(15);
    const made = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const places = [
      [-5, "", 0],
      [0, "a", 1],
      [1, "", 1],
      [1, "a", 0],
      [Number.MAX_SAFE_INTEGER, "a", 1],
      [1, "a", 1, 1],
    ].map(made);
    const slips = [
      "",
      "null",
      "undefined",
      "NaN",
      "%00",
      "%20",
      "0",
      "1",
      "a",
      "c1",
      "true",
      "[object%20Object]",
      "==",
      "~",
      "~=",
      "~A",
      "~_w",
    ];
    for (const { path } of lists) {
      const taken = [];
      for (const cursor of [...slips, ...places]) {
        const answer = await caller.get(`${called(path)}?cursor=${cursor}`);
        if (answer.status !== 422 || answer.body.issues[0].path !== "cursor") taken.push(cursor);
      }
      expect([path, taken]).toEqual([path, []]);
    }
  });

  it("a query with a cursor that was shortened or extended is refused by every kind of list", async () => {
    const caller = await callerWith();
    const row = (id: string) => ({ contact_id: id, email: `${id}@example.com` });
    await completed(caller, [row("null"), row("ünï/%"), row("z")].map((one) => JSON.stringify(one)).join("\n"), {
      type: "application/x-ndjson",
    });
    for (const name of ["null", "undefined", "z"]) {
      await caller.call("PUT", `/v1/brands/${name}`, {});
      const command = { type: "brand.audit", payload: { brand: name } };
      expect((await caller.call("PUT", `/v1/schedules/${name}`, { cron: "0 3 * * 1", command, reason: "weekly" })).status).toBeLessThan(
        300,
      );
    }
    for (const path of ["/v1/contacts", "/v1/crm/links", "/v1/brands", "/v1/schedules"]) {
      const whole = (await caller.get(path)).body.items;
      const { items, next_cursor: cursor } = (await caller.get(`${path}?limit=1`)).body;
      expect([path, [...items, ...(await caller.get(`${path}?cursor=${cursor}`)).body.items]]).toEqual([path, whole]);
      for (const other of [`${cursor}==`, `${cursor}%00`, `${cursor}.`, ` ${cursor}`, `${cursor}/`])
        expect([path, other, (await caller.get(`${path}?cursor=${other}`)).status]).toEqual([path, other, 422]);
    }
  });

  it("a query with a cursor that this server cannot have created is refused", async () => {
    const caller = await callerWith();
    await caller.post("/v1/commands", research(fresh("k")));
    await caller.post("/v1/commands", research(fresh("k")));
    const { next_cursor } = (await caller.get("/v1/instances?limit=1")).body;
    expect((await caller.get(`/v1/instances?cursor=${next_cursor}`)).body.items).toHaveLength(1);
    for (const cursor of ["9999999999999999.a", "8640000000000001.a", "0001.a", `0${next_cursor}`, "1", ".a", "a.a"])
      expectProblem(await caller.get(`/v1/instances?cursor=${cursor}`), 422, "invalid_payload");
  });
});

describe("An invalid request", () => {
  it("an invalid request gets the engine's own error text on every route, not a library's", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed", "observe"]);
    const document: Json = await (await exports.default.fetch("http://localhost/openapi.json")).json();
    const said: string[][] = [];
    const hear = ({ status, body }: { status: number; body: Json }, asked: string) => {
      const problems = status >= 400 ? [body] : (body.results ?? []).flatMap(({ problem }: Json) => problem ?? []);
      for (const { issues = [] } of problems) said.push(...issues.map(({ message }: Json) => [asked, message]));
    };
    const resolved = (schema: Json): Json => (schema?.$ref ? document.components.schemas[schema.$ref.split("/").at(-1)] : schema);
    for (const [path, item] of Object.entries<Json>(document.paths))
      for (const [method, { requestBody }] of Object.entries<Json>(item)) {
        if (method !== "get" && !requestBody) continue;
        if (method === "get") {
          if (path.startsWith("/v1/")) hear(await caller.get(path.replaceAll(/\{\w+\}/g, "%01%C3%9C~")), path);
          continue;
        }
        const schema = resolved(requestBody.content["application/json"]?.schema ?? {});
        const fields = Object.entries<Json>(schema.properties ?? {}).flatMap(([name, one]) => {
          const bad: unknown[] = [7, "", "\u0001Ü", [], {}, null, [{}]];
          return bad.map((value) => ({ [name]: value, ...(one.type === "array" && { [name]: [value] }) }));
        });
        for (const body of [{}, [], ...fields])
          hear(await caller.call(method.toUpperCase(), called(path), body), `${method} ${path} ${JSON.stringify(body)}`);
      }
    const event = { specversion: "2.0", id: "e", source: "s", type: "research.requested" };
    hear(await caller.post("/v1/commands", event, { "content-type": "application/cloudevents+json" }), "a CloudEvent");
    hear(
      await send("/crm/hubspot/webhooks/Acme%20Inc", { method: "POST", headers: { "content-type": "application/json" }, body: "[]" }),
      "a tenant",
    );
    hear(
      await caller.post("/v1/facts", { facts: [{ fact_id: "f", entity: "a/b", occurred_at: "2026-11-01T10:00:00Z", payload: {} }] }),
      "a fact",
    );
    expect(said.length).toBeGreaterThan(200);
    const asked = new Set(said.map(([what]) => what));
    for (const what of ["a CloudEvent", "a tenant", "a fact"]) expect(asked).toContain(what);
    expect(
      said.filter(([, message = ""]) => /^(Invalid|Too (big|small)|Unrecognized)|received|discriminator|must match pattern/.test(message)),
    ).toEqual([]);
  });
});

describe("A request's content type", () => {
  it("the content type of a request without a body is not checked", async () => {
    const caller = await callerWith();
    for (const headers of [{ "content-encoding": "gzip" }, { "content-type": "text/plain; charset=utf-16" }] as Record<string, string>[])
      expect((await caller.call("GET", "/v1/instances", undefined, headers)).status).toBe(200);
  });

  it("the content type of a DELETE, which reads no body, is not checked", async () => {
    const caller = await callerWith(["tokens"]);
    for (const headers of [{ "content-encoding": "br" }, { "content-type": "text/plain; charset=utf-16" }] as Record<string, string>[])
      expectProblem(await caller.call("DELETE", "/v1/tokens/none", {}, headers), 404, "token_not_found");
  });

  it("an invalid content type is refused with the documented text by every route that accepts a body", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed", "observe"]);
    const asked = (await operations()).filter(({ method }) => method === "POST" || method === "PUT");
    for (const { method, path } of asked.filter((one) => !one.path.startsWith("/embedded")))
      expectProblem(await caller.call(method, called(path), {}, { "content-encoding": "gzip" }), 415, "unsupported_media_type");
  });
});
