import { describe, expect, it } from "vitest";
import { askToPublish, draft } from "../systems/content/article.ts";
import { callerWith, expectProblem, reaches } from "./client.ts";
import { seedEffect, seedInstance } from "./seed.ts";

const BODIES = {
  cancel: {},
  pause: {},
  resume: {},
  restart: {},
  close: {},
  skip: { step: "put page", output: null },
  "signals/webhook.switched": { payload: { endpoint_id: "e", version: 1 } },
} as const;
const verbs = Object.entries(BODIES);
const named = (verb: string): Record<string, string> => (verb.startsWith("signals") ? { "Idempotency-Key": crypto.randomUUID() } : {});

describe("An action on one instance over HTTP", () => {
  it.each(verbs)("an action (%s) requires a reason, the scope, and an instance of the caller's tenant", async (verb, more) => {
    const caller = await callerWith();
    const path = `/v1/instances/${await seedInstance((await callerWith()).tenantId)}/${verb}`;
    expectProblem(await caller.post(path, more, named(verb)), 422, "invalid_payload");
    for (const dry_run of [true, false]) {
      expectProblem(await caller.post(path, { reason: "r", dry_run, ...more }, dry_run ? {} : named(verb)), 404, "instance_not_found");
    }
    const reader = await callerWith(["read"]);
    expectProblem(await reader.post(path, { reason: "r", ...more }, named(verb)), 403, "forbidden");
  });

  it.each(verbs)("an action (%s) is refused with the reason of its dry run, audited, and changes nothing", async (verb, more) => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { status: "complete" });
    await seedEffect(id, { step: "send mail", state: "done" });
    const plan = await caller.post(`/v1/instances/${id}/${verb}`, { reason: "now", dry_run: true, ...more });
    expect([plan.status, Object.keys(plan.body).toSorted()]).toEqual([200, ["consequence", "effects", "from", "note", "refused"]]);
    const refused = expectProblem(
      await caller.post(`/v1/instances/${id}/${verb}`, { reason: "now", ...more }, named(verb)),
      409,
      "invalid_transition",
    );
    expect(refused).toMatchObject({ from: "complete", detail: plan.body.refused });
    expect((await caller.get(`/v1/instances/${id}`)).body).toMatchObject({ status: "complete", undo: null });
    expect((await caller.get("/v1/audit")).body.items).toMatchObject([{ target: id, reason: "now", result: "no_change" }]);
  });

  it("a failed instance can be closed, and a signal without a key is refused", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { status: "errored" });
    const { status, body } = await caller.post(`/v1/instances/${id}/close`, { reason: "it is off the plan" });
    expect([status, body]).toEqual([202, { action_id: expect.any(String) }]);
    expect((await caller.get(`/v1/instances/${id}`)).body).toMatchObject({ status: "skipped" });
    expect((await caller.get("/v1/audit")).body.items).toMatchObject([{ verb: "close", reason: "it is off the plan", result: "applied" }]);
    const keyless = await caller.post(`/v1/instances/${id}/signals/webhook.switched`, { reason: "r", payload: {} });
    expectProblem(keyless, 422, "invalid_payload");
  });

  it("an instance with a published article cannot be cancelled: its dry run suggests the undo", async () => {
    const caller = await callerWith();
    const id = await askToPublish(caller, await draft(caller));
    await reaches(caller, id, "complete");
    const plan = await caller.post(`/v1/instances/${id}/cancel`, { reason: "too late", dry_run: true });
    expect(plan.body).toMatchObject({
      refused: expect.stringContaining("To undo its effects, undo it"),
      effects: [{ step: "put page", verdict: "undone" }, {}],
    });
  });
});
