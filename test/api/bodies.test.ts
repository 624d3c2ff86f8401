import { describe, expect, it } from "vitest";
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
