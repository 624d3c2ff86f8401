import { describe, expect, it, onTestFinished, vi } from "vitest";
import { parseBounded } from "../../src/engine/index.ts";
import { callerWith, expectProblem, research, send } from "./client.ts";

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
    ["holds half of a character", '{"type":"research.requested","payload":{"brand":"a","keyword":"\\ud83d"}}', 422, "invalid_payload"],
    [
      "holds a number beyond any",
      '{"type":"research.requested","payload":{"brand":"a","keyword":"b","score":1e999}}',
      422,
      "invalid_payload",
    ],
    ["is 5 MB", JSON.stringify(research("x".repeat(5_000_000))), 413, "payload_too_large"],
    ["has 60,000 keys", `{"a":[${"1,".repeat(59_999)}1]}`, 422, "invalid_payload"],
    ["has two million keys", `[${"0,".repeat(2_000_000)}0]`, 422, "invalid_payload"],
    ["has 60,000 keys and then no end", `[${"{},".repeat(60_000)}`, 422, "invalid_payload"],
  ])("that %s is refused", async (_, body, status, code) => {
    const caller = await callerWith();
    expectProblem(await caller.post("/v1/commands", body), status, code);
    const { body: after } = await caller.get("/v1/instances");
    expect(after.items).toEqual([]);
  });

  it("names the path of a forbidden key", async () => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", '{"type":"x","payload":{"a":{"__proto__":1}}}');
    expect(expectProblem(answer, 422, "invalid_payload").issues).toMatchObject([{ path: "payload.a.__proto__" }]);
  });

  it("of bytes that are not UTF-8 is refused, and the answer says what to send", async () => {
    const caller = await callerWith();
    const raw = new TextEncoder().encode(JSON.stringify(research("caf?")));
    raw[raw.indexOf("?".charCodeAt(0))] = 0xe9;
    const answer = await caller.call("POST", "/v1/commands", undefined, { "content-type": "application/json; charset=latin1" }, raw);
    expect(expectProblem(answer, 400, "invalid_json").detail).toContain("UTF-8");
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  });

  it("with NUL in a name is refused, at its place", async () => {
    const caller = await callerWith();
    const named = await caller.post("/v1/commands", research("cold\0brew"));
    expect(expectProblem(named, 422, "invalid_payload").issues).toMatchObject([{ path: "payload.keyword" }]);
    const keyed = { ...research("cold brew"), idempotency_key: "a\0b" };
    const [result] = (await caller.post("/v1/commands/batch", { commands: [keyed] })).body.results;
    expect(result).toMatchObject({ status: 422, problem: { code: "invalid_payload" } });
  });

  it("whose type is very long is refused, and no other is guessed", async () => {
    const caller = await callerWith();
    const long = "t".repeat(3_900_000);
    const [stated] = (await caller.post("/v1/facts", { facts: [{ type: long }] })).body.results;
    expect(stated).toMatchObject({ status: 422, problem: { code: "invalid_payload" } });
    expect(stated.problem).not.toHaveProperty("did_you_mean");
  });

  it("is known by its text: nothing is made of one with too many keys or levels", async () => {
    const parse = vi.spyOn(JSON, "parse");
    onTestFinished(() => parse.mockRestore());
    for (const text of [`[${"0,".repeat(50_000)}0]`, `[${"{},".repeat(50_000)}{}]`, nested(65), `{"a":"\\"",${nested(65).slice(1)}`]) {
      expect(() => parseBounded(text)).toThrow(/more than 50000 keys|nested deeper than 64 levels/);
    }
    expect(parse).not.toHaveBeenCalled();
    for (const text of [`[${"0,".repeat(49_999)}0]`, `[${"[ ],".repeat(49_999)}{}]`, nested(64), JSON.stringify('",[{\\'.repeat(60_000))]) {
      expect(parseBounded(text)).toEqual(JSON.parse(text));
    }
  });

  it("is small where a little is asked for", async () => {
    const caller = await callerWith();
    const body = { reason: "r".repeat(70_000) };
    for (const path of ["/v1/instances/x/retry", "/v1/dead-letters/x/skip", "/v1/schedules/x/pause", "/v1/approvals/x/approve"]) {
      expectProblem(await caller.post(path, body), 413, "payload_too_large");
    }
  });

  it.each([
    ["49,000 unknown fields", Object.fromEntries(Array.from({ length: 49_000 }, (_, index) => [index.toString(36), 0])), 50],
    ["an unknown field of a million characters", { ["k".repeat(1_000_000)]: 0 }, 1],
    ["a forbidden key behind one of a million characters", { ["k".repeat(1_000_000)]: { constructor: 1 } }, 1],
  ])("with %s gets an answer that is shorter than the question", async (_, wrong, count) => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", { ...research("x"), ...wrong });
    expect(expectProblem(answer, 422, "invalid_payload").issues).toHaveLength(count);
    expect(JSON.stringify(answer.body).length).toBeLessThan(20_000);
  });

  it("takes whole characters that were escaped in halves", async () => {
    const caller = await callerWith();
    const { status } = await caller.post(
      "/v1/commands",
      '{"type":"research.requested","payload":{"brand":"a","keyword":"\\ud83d\\ude00"}}',
    );
    expect(status).toBe(202);
  });

  it("without a length is read no further than the limit", async () => {
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
    "of type %s is refused, and the answer says what to send",
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

  it("without a type is refused", async () => {
    const { token } = await callerWith();
    const body = new TextEncoder().encode(JSON.stringify(research("x")));
    const answer = await send("/v1/commands", { method: "POST", headers: { authorization: `Bearer ${token}` }, body });
    expectProblem(answer, 415, "unsupported_media_type");
  });

  it("is refused by operators' routes too", async () => {
    const caller = await callerWith();
    for (const path of ["/v1/instances/x/retry", "/v1/effects/x/confirm", "/v1/dead-letters/x/replay", "/v1/dead-letters/x/skip"]) {
      expectProblem(await caller.post(path, "{"), 400, "invalid_json");
      expectProblem(await caller.post(path, `{"reason":"r","body":${nested(65)}}`), 422, "invalid_payload");
      expect(expectProblem(await caller.post(path, {}), 422, "invalid_payload").issues).toMatchObject([{ path: "reason" }]);
      expect(expectProblem(await caller.post(path, { reason: "  " }), 422, "invalid_payload").issues).toMatchObject([{ path: "reason" }]);
    }
  });
});
