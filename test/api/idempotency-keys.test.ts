import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json, send } from "./client.ts";

const KEY = "Idempotency-Key";

describe("Idempotency-Key", () => {
  it("Idempotency-Key is accepted by the routes that document it, and refused by every other changing route", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "observe", "tokens", "embedded"]);
    const { paths } = (await send("/openapi.json")).body as Json;
    const readers: string[] = [];
    const silent: string[] = [];
    for (const [path, item] of Object.entries<Json>(paths)) {
      for (const [method, operation] of Object.entries<Json>(item)) {
        if (method === "get") continue;
        const named = `${method.toUpperCase()} ${path}`;
        if (operation.parameters?.some(({ name }: Json) => name === "idempotency-key")) {
          readers.push(named);
          const answers = Object.values<Json>(operation.responses);
          if (!answers.some(({ headers }) => headers?.["Idempotency-Replayed"])) silent.push(named);
        } else {
          const answer = await caller.call(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, "x"), {}, { [KEY]: "k" });
          const { issues } = expectProblem(answer, 422, "invalid_payload");
          expect(issues, named).toEqual([{ path: KEY, message: "is not read by this route: leave the header out" }]);
        }
      }
    }
    expect(silent).toEqual([]);
    expect(readers.sort()).toEqual([
      "POST /v1/batches",
      "POST /v1/budgets/{account}/asks",
      "POST /v1/bulk-actions",
      "POST /v1/commands",
      "POST /v1/events",
      "POST /v1/instances/{id}/run-again",
      "POST /v1/instances/{id}/signals/{type}",
      "POST /v1/schedules/{name}/run",
      "POST /v1/webhooks",
      "POST /v1/webhooks/{id}/deliveries",
      "POST /v1/webhooks/{id}/deliveries/{delivery}/redeliver",
      "POST /v1/webhooks/{id}/redeliver",
    ]);
  });

  it("Idempotency-Key is permitted for any GET", async () => {
    const { token } = await callerWith();
    expect((await send("/v1/instances", { headers: { authorization: `Bearer ${token}`, [KEY]: "k" } })).status).toBe(200);
  });

  describe("for an endpoint", () => {
    const config = (extra = {}) => ({ url: `http://127.0.0.1:9/${fresh()}`, fact_types: ["outcome", "charge"], ...extra });

    it("two equal requests for an endpoint with one Idempotency-Key create one endpoint, and both get the same response", async () => {
      const caller = await callerWith();
      const asked = config();
      const answers = await Promise.all([1, 2, 3].map(() => caller.post("/v1/webhooks", asked, { [KEY]: "first" })));
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
      for (const { body, headers } of answers) {
        expect(body).toEqual({ ...answers[0]?.body, secret: expect.stringMatching(/^whsec_/) });
        expect(headers.get("location")).toBe(`/v1/webhooks/${body.id}`);
      }
      expect(answers.filter(({ headers }) => headers.get("idempotency-replayed") === "true")).toHaveLength(2);
      expect((await caller.get("/v1/webhooks")).body.items).toHaveLength(1);
      expect((await caller.get(`/v1/webhooks/${answers[0]?.body.id}/secrets`)).body.items).toHaveLength(1);
    });

    it("a request for an endpoint under another key, without a key, or for another tenant creates another endpoint", async () => {
      const [caller, other] = [await callerWith(), await callerWith()];
      const asked = config();
      const answers = [
        await caller.post("/v1/webhooks", asked, { [KEY]: "a" }),
        await caller.post("/v1/webhooks", asked, { [KEY]: "b" }),
        await caller.post("/v1/webhooks", asked),
        await other.post("/v1/webhooks", asked, { [KEY]: "a" }),
      ];
      expect(new Set(answers.map(({ body }) => body.id)).size).toBe(4);
      expect(new Set(answers.map(({ body }) => body.secret)).size).toBe(4);
    });

    it("a different request under a used key, and a repeat for an endpoint that has changed since, are refused", async () => {
      const caller = await callerWith();
      const asked = config();
      const again = (body: object) => caller.post("/v1/webhooks", body, { [KEY]: "k" });
      const { body } = await again(asked);
      expectProblem(await again({ ...asked, description: "mine" }), 422, "idempotency_key_reused");
      expectProblem(await again({ ...asked, enabled: false }), 422, "idempotency_key_reused");
      expect((await again({ ...asked, fact_types: ["charge", "outcome"] })).body.id).toBe(body.id);
      await caller.post(`/v1/webhooks/${body.id}/rotate`, { overlap_seconds: 0 });
      const rotated = await again(asked);
      expectProblem(rotated, 409, "invalid_transition");
      expect(JSON.stringify(rotated.body)).not.toContain("whsec_");
      await caller.call("DELETE", `/v1/webhooks/${body.id}`);
      expectProblem(await again(asked), 409, "invalid_transition");
      expect((await caller.get("/v1/webhooks?deleted=true")).body.items).toMatchObject([{ id: body.id, state: "deleted", version: 2 }]);
    });
  });

  describe("for a batch", () => {
    const asked = { operation: "export", dataset: "contacts" };

    it("the Idempotency-Key of a batch is its id", async () => {
      const caller = await callerWith();
      const first = await caller.post("/v1/batches", asked, { [KEY]: "nightly-1" });
      expect([first.status, first.body.batch_id, first.body.replayed]).toEqual([202, "nightly-1", false]);
      const again = await caller.post("/v1/batches", asked, { [KEY]: '"nightly-1"' });
      expect(again.body).toMatchObject({ batch_id: "nightly-1", replayed: true });
      expect((await caller.post("/v1/batches", { ...asked, batch_id: "nightly-1" })).body.replayed).toBe(true);
      expectProblem(await caller.post("/v1/batches", { ...asked, format: "jsonl" }, { [KEY]: "nightly-1" }), 422, "idempotency_key_reused");
    });

    it("an Idempotency-Key that cannot be the id of the batch, or differs from it, is refused", async () => {
      const caller = await callerWith();
      for (const [key, body] of [
        ["a b", asked],
        ["k".repeat(65), asked],
        ["one", { ...asked, batch_id: "two" }],
      ] as const)
        expect(expectProblem(await caller.post("/v1/batches", body, { [KEY]: key }), 422, "invalid_payload").issues).toMatchObject([
          { path: KEY },
        ]);
      expect(expectProblem(await caller.post("/v1/batches", asked), 422, "invalid_payload").issues).toMatchObject([{ path: "batch_id" }]);
    });

    it("the Idempotency-Key of an upload is its id", async () => {
      const caller = await callerWith();
      const file = new TextEncoder().encode("contact_id,email\nc1,a@example.com\n");
      const headers = { "content-type": "text/csv", "content-length": String(file.length), [KEY]: "file-1" };
      const upload = () => caller.call("POST", "/v1/batches?operation=import&dataset=contacts", undefined, headers, file);
      const first = await upload();
      expect([first.status, first.body.batch_id]).toEqual([202, "file-1"]);
      expect((await upload()).body).toMatchObject({ batch_id: "file-1", replayed: true });
    });
  });
});
