import { exports } from "cloudflare:workers";
import { texts } from "millrace";
import { bodies } from "millrace/http";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { callerWith, expectProblem, type Json, research, send } from "./client.ts";

const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

describe("A hostile body", () => {
  it.each([
    ["is not JSON", "{", 400, "invalid_json"],
    ["is empty", "", 400, "invalid_json"],
    ["is an array", "[]", 422, "invalid_payload"],
    ["is null", "null", 422, "invalid_payload"],
    ["is nested 65 deep", nested(65), 422, "invalid_payload"],
    ["is nested 10,000 deep", nested(10_000), 422, "invalid_payload"],
    ["holds __proto__", '{"type":"research.requested","payload":{"__proto__":{"admin":true}}}', 422, "invalid_payload"],
    ["holds constructor", '{"type":"research.requested","payload":{"constructor":1}}', 422, "invalid_payload"],
    [
      "contains half of a surrogate pair",
      '{"type":"research.requested","payload":{"brand":"a","keyword":"\\ud83d"}}',
      422,
      "invalid_payload",
    ],
    [
      "contains a number above the maximum",
      '{"type":"research.requested","payload":{"brand":"a","keyword":"b","score":1e999}}',
      422,
      "invalid_payload",
    ],
    ["is 5 MB", JSON.stringify(research("x".repeat(5_000_000))), 413, "payload_too_large"],
    ["has 60,000 keys", `{"a":[${"1,".repeat(59_999)}1]}`, 422, "invalid_payload"],
    ["has two million keys", `[${"0,".repeat(2_000_000)}0]`, 422, "invalid_payload"],
    ["has 60,000 keys and is not closed", `[${"{},".repeat(60_000)}`, 422, "invalid_payload"],
  ])("a body that %s is refused", async (_, body, status, code) => {
    const caller = await callerWith();
    expectProblem(await caller.post("/v1/commands", body), status, code);
    const { body: after } = await caller.get("/v1/instances");
    expect(after.items).toEqual([]);
  });

  it("a body with a forbidden key is refused, and the error has the path of that key", async () => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", '{"type":"x","payload":{"a":{"__proto__":1}}}');
    expect(expectProblem(answer, 422, "invalid_payload").issues).toMatchObject([{ path: "payload.a.__proto__" }]);
  });

  it("a body that is not UTF-8 is refused, and the error names the encoding to send", async () => {
    const caller = await callerWith();
    const raw = new TextEncoder().encode(JSON.stringify(research("caf?")));
    raw[raw.indexOf("?".charCodeAt(0))] = 0xe9;
    const answer = await caller.call("POST", "/v1/commands", undefined, { "content-type": "application/json" }, raw);
    expect(expectProblem(answer, 400, "invalid_json").detail).toContain("UTF-8");
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  });

  it("a body with NUL in a name is refused, and the error names the place", async () => {
    const caller = await callerWith();
    const named = await caller.post("/v1/commands", research("cold\0brew"));
    expect(expectProblem(named, 422, "invalid_payload").issues).toMatchObject([{ path: "payload.keyword" }]);
    const keyed = { ...research("cold brew"), idempotency_key: "a\0b" };
    const events = [{ specversion: "1.0", id: "e", source: "s", type: "research.requested", data: { brand: "acme", keyword: "\0" } }];
    for (const [path, body, type] of [
      ["/v1/commands/batch", { commands: [keyed, research("tea")] }, "application/json"],
      ["/v1/commands/batch", events, "application/cloudevents-batch+json"],
      ["/v1/facts", { facts: [{ fact_id: "f", payload: { "a\0b": 1 } }] }, "application/json"],
    ] as const) {
      const { results } = (await caller.post(path, body, { "content-type": type })).body;
      expect(results[0]).toMatchObject({ status: 422, problem: { code: "invalid_payload", detail: expect.stringContaining("NUL") } });
      if (results[1]) expect(results[1]).toMatchObject({ status: 202 });
    }
    for (const [method, path, body, at] of [
      ["POST", "/v1/instances/x/retry", { reason: "a\0b" }, "reason"],
      ["PUT", "/v1/brands/acme", { approval_timeout: "\0" }, "approval_timeout"],
    ] as const)
      expect(expectProblem(await caller.call(method, path, body), 422, "invalid_payload").issues).toMatchObject([{ path: at }]);
    // After an escaped backslash the text "u0000" is plain.
    expect((await caller.post("/v1/commands", research("a \\u0000 b"))).status).toBe(202);
  });

  it.each([
    ["a field of the command", '{"type":"a.b","type":"research.requested","payload":{}}', "type"],
    ["a field of its payload", '{"type":"research.requested","payload":{"brand":"a","keyword":"x","keyword":"y"}}', "payload.keyword"],
    [
      "a field that is escaped differently",
      '{"type":"research.requested","payload":{"brand":"a","keyword":"x","\\u006beyword":"y"}}',
      "payload.keyword",
    ],
    ["the same value twice", '{"type":"a","payload":[{"b":1},{"c":[1,2],"d":{},"d":{}}]}', "payload.1.d"],
  ])("a body with %s twice is refused, and the error names the place", async (_, body, path) => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", body);
    expect(expectProblem(answer, 422, "invalid_payload").issues).toEqual([{ path, message: "occurs twice: send it once" }]);
  });

  it.each<[string, Record<string, string>]>([
    ["packed with gzip", { "content-encoding": "gzip" }],
    ["labelled as compressed with br", { "content-encoding": "br" }],
    ["packed twice", { "content-encoding": "identity, gzip" }],
    ["in UTF-16", { "content-type": "application/json; charset=utf-16" }],
    ["in Latin-1", { "content-type": 'application/json;charset="ISO-8859-1"' }],
    ["of two charsets", { "content-type": "application/json; charset=utf-8; charset=utf-16" }],
    ["of two types", { "content-type": "application/json; charset=utf-8, text/plain" }],
  ])("a body %s is refused before it is read, by every route that accepts a body", async (_, headers) => {
    const caller = await callerWith(["enqueue", "read", "operate"]);
    for (const path of [
      "/v1/commands",
      "/v1/commands/batch",
      "/v1/facts",
      "/v1/webhooks",
      "/v1/batches?operation=import",
      "/v1/instances/x/retry",
    ]) {
      const answer = await caller.post(path, research("x"), headers);
      expectProblem(answer, 415, "unsupported_media_type");
      if ("content-encoding" in headers) expect(answer.headers.get("accept-encoding")).toBe("identity");
    }
  });

  it.each<Record<string, string>>([
    { "content-encoding": "identity" },
    { "content-type": "application/json; charset=UTF-8" },
    { "content-type": "Application/JSON" },
  ])("a body with %s is read", async (headers) => {
    const caller = await callerWith();
    expect((await caller.post("/v1/commands", research("tea"), headers)).status).toBe(202);
  });

  it("a refused body is read to its end, so that a client that is still sending gets the response", async () => {
    const { token } = await callerWith();
    for (const [path, type, status] of [
      ["/v1/qualification-rules/try", "application/json", 413],
      ["/v1/commands", "text/plain", 415],
      ["/v1/nothing", "application/json", 404],
    ] as const) {
      let left = 80;
      const body = new ReadableStream({
        pull(controller) {
          if (left-- === 0) controller.close();
          else controller.enqueue(new Uint8Array(65_536).fill(32));
        },
      });
      const headers = { authorization: `Bearer ${token}`, "content-type": type };
      const answer = await send(path, { method: "POST", headers, body });
      expect([path, answer.status, left]).toEqual([path, status, -1]);
    }
  });

  it("a body that starts and never continues does not delay a refusal, on any route", async () => {
    const unable = await callerWith(["unattributed"]);
    const able = await callerWith(["enqueue", "read", "operate", "tokens", "unattributed"]);
    const document: Json = await (await exports.default.fetch("http://localhost/openapi.json")).json();
    const stalled = (path: string, method: string, headers: Record<string, string>) => {
      const start = (controller: ReadableStreamDefaultController) => controller.enqueue(new TextEncoder().encode("{"));
      return send(path, {
        method,
        headers: { "content-length": "1000", "content-type": "application/json", ...headers },
        body: new ReadableStream({ start }),
      });
    };
    const routes = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
      Object.entries<Json>(item).flatMap(([method, { requestBody }]) =>
        requestBody ? [[path.replaceAll(/\{\w+\}/g, "1"), method.toUpperCase()] as const] : [],
      ),
    );
    expect(routes.length).toBeGreaterThan(35);
    const refusals = [
      ["a body without a token", {}],
      ["a body with a token that lacks the scope", { authorization: `Bearer ${unable.token}` }],
      ["a body of another content type", { authorization: `Bearer ${able.token}`, "content-type": "text/plain" }],
      ["a compressed body", { authorization: `Bearer ${able.token}`, "content-encoding": "gzip" }],
      ["a body with an unknown query parameter", { authorization: `Bearer ${able.token}` }, "?nonesuch=1"],
      ["a body to an unknown route", {}, "/nonesuch/nonesuch"],
      [
        "a body with a length of 2 GB",
        { authorization: `Bearer ${able.token}`, "content-type": "text/csv", "content-length": "2147483648" },
      ],
    ] as const;
    // A route that waited for the rest of its body would wait forever.
    const answers = await Promise.all(
      routes.flatMap(([path, method]) =>
        refusals.map(async ([whose, headers, more = ""]) => [method, path, whose, (await stalled(path + more, method, headers)).status]),
      ),
    );
    expect(answers.filter(([, , , status]) => Number(status) < 400 || Number(status) >= 500)).toEqual([]);
  });

  it("a body that breaks off is refused, without an internal error", async () => {
    const logged = vi.spyOn(console, "error");
    onTestFinished(() => logged.mockRestore());
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"type":'));
        controller.error(new Error("Network connection lost."));
      },
    });
    const request = new Request("http://localhost/", { method: "POST", body });
    await expect(bodies.text(request, 1000)).rejects.toMatchObject({ code: "invalid_json" });
    expect(logged).not.toHaveBeenCalled();
  });

  it("a body with a very long type is refused without a suggestion", async () => {
    const caller = await callerWith();
    const long = "t".repeat(3_900_000);
    const [stated] = (await caller.post("/v1/facts", { facts: [{ type: long }] })).body.results;
    expect(stated).toMatchObject({ status: 422, problem: { code: "invalid_payload" } });
    expect(stated.problem).not.toHaveProperty("did_you_mean");
  });

  it("a body with thousands of unknown fields gets an error that lists fifty of them", async () => {
    const caller = await callerWith();
    const unknown = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`field_${n}`, n]));
    const refused = expectProblem(await caller.post("/v1/commands", { ...research("tea"), ...unknown }), 422, "invalid_payload");
    expect(refused.issues).toHaveLength(50);
    expect(refused.issues[0]).toEqual({ path: "field_0", message: expect.stringContaining("is not known here") });
  });

  it("a body with too many keys or levels is refused while its text is scanned, before it is parsed", async () => {
    const parse = vi.spyOn(JSON, "parse");
    onTestFinished(() => parse.mockRestore());
    for (const text of [`[${"0,".repeat(50_000)}0]`, `[${"{},".repeat(50_000)}{}]`, nested(65), `{"a":"\\"",${nested(65).slice(1)}`]) {
      expect(() => texts.parseBounded(text)).toThrow(/more than 50000 keys|nested deeper than 64 levels/);
    }
    expect(parse).not.toHaveBeenCalled();
    for (const text of [`[${"0,".repeat(49_999)}0]`, `[${"[ ],".repeat(49_999)}{}]`, nested(64), JSON.stringify('",[{\\'.repeat(60_000))]) {
      expect(texts.parseBounded(text)).toEqual(JSON.parse(text));
    }
  });

  it("a body is limited to a smaller size on routes with a smaller limit", async () => {
    const caller = await callerWith();
    const body = { reason: "r".repeat(70_000) };
    for (const path of ["/v1/instances/x/retry", "/v1/dead-letters/x/skip", "/v1/schedules/x/pause", "/v1/approvals/x/approve"]) {
      expectProblem(await caller.post(path, body), 413, "payload_too_large");
    }
  });

  it.each([
    ["49,000 unknown fields", Object.fromEntries(Array.from({ length: 49_000 }, (_, index) => [index.toString(36), 0])), 50],
    ["an unknown field of a million characters", { ["k".repeat(1_000_000)]: 0 }, 1],
    ["a forbidden key after a key of one million characters", { ["k".repeat(1_000_000)]: { constructor: 1 } }, 1],
  ])("a body with %s gets a response that is shorter than the request", async (_, wrong, count) => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", { ...research("x"), ...wrong });
    expect(expectProblem(answer, 422, "invalid_payload").issues).toHaveLength(count);
    expect(JSON.stringify(answer.body).length).toBeLessThan(20_000);
  });

  it("a body with whole characters that were escaped as surrogate pairs is accepted", async () => {
    const caller = await callerWith();
    const { status } = await caller.post(
      "/v1/commands",
      '{"type":"research.requested","payload":{"brand":"a","keyword":"\\ud83d\\ude00"}}',
    );
    expect(status).toBe(202);
  });

  it("a body without a Content-Length is read up to the limit", async () => {
    const { token } = await callerWith();
    let sent = 0;
    const endless = new ReadableStream({
      pull(controller) {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536).fill(32));
        if (sent > 50_000_000) controller.close();
      },
    });
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    expectProblem(await send("/v1/commands", { method: "POST", headers, body: endless }), 413, "payload_too_large");
    expect(sent).toBeLessThan(20_000_000);
  });

  it.each([["text/plain"], ["application/x-www-form-urlencoded"], ["application/cloudevents-batch+json"], ["application/jsonp"]])(
    "a body of type %s is refused, and the error names the type to send",
    async (type) => {
      const caller = await callerWith();
      const problem = expectProblem(
        await caller.post("/v1/commands", research("x"), { "content-type": type }),
        415,
        "unsupported_media_type",
      );
      expect(problem.detail).toContain("Content-Type: application/json");
    },
  );

  it("a body without a Content-Type is refused", async () => {
    const { token } = await callerWith();
    const body = new TextEncoder().encode(JSON.stringify(research("x")));
    const answer = await send("/v1/commands", { method: "POST", headers: { authorization: `Bearer ${token}` }, body });
    expectProblem(answer, 415, "unsupported_media_type");
  });

  it("a hostile body is refused by operators' routes as well", async () => {
    const caller = await callerWith();
    for (const path of ["/v1/instances/x/retry", "/v1/effects/x/confirm", "/v1/dead-letters/x/replay", "/v1/dead-letters/x/skip"]) {
      expectProblem(await caller.post(path, "{"), 400, "invalid_json");
      expectProblem(await caller.post(path, `{"reason":"r","body":${nested(65)}}`), 422, "invalid_payload");
      expect(expectProblem(await caller.post(path, {}), 422, "invalid_payload").issues[0]).toMatchObject({ path: "reason" });
      expect(expectProblem(await caller.post(path, { reason: "  " }), 422, "invalid_payload").issues[0]).toMatchObject({ path: "reason" });
    }
  });
});
