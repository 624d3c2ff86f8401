import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { askToPublish, draft } from "../systems/content/article.ts";
import { callerWith, expectProblem, reaches } from "./client.ts";
import { seedEffect, seedInstance } from "./seed.ts";

describe("Undoing over HTTP", () => {
  it("an undo over HTTP lists the effects first, changes nothing, and undoes them on request", async () => {
    const caller = await callerWith();
    const id = await askToPublish(caller, await draft(caller));
    await reaches(caller, id, "complete");
    const plan = await caller.post(`/v1/instances/${id}/undo`, { reason: "called off", dry_run: true });
    expect([plan.status, plan.body]).toEqual([
      200,
      {
        refused: null,
        from: null,
        consequence: expect.stringContaining("in reverse order"),
        note: null,
        effects: [
          { step: "put page", item: "", verdict: "undone" },
          { step: "see who must agree", item: "", verdict: "stays" },
        ],
      },
    ]);
    expect((await caller.get(`/v1/instances/${id}`)).body).toMatchObject({ status: "complete", undo: null });

    const { status, body } = await caller.post(`/v1/instances/${id}/undo`, { reason: "called off" });
    expect([status, body]).toEqual([202, { action_id: expect.any(String) }]);
    expect(await reaches(caller, id, "terminated")).toMatchObject({ undo: "done", error: null });
    expect((await caller.get("/v1/audit")).body.items).toMatchObject([
      { id: body.action_id, verb: "undo", target: id, reason: "called off", result: "applied" },
    ]);
    const again = expectProblem(await caller.post(`/v1/instances/${id}/undo`, { reason: "again" }), 409, "invalid_transition");
    expect(again).toMatchObject({ from: "terminated", detail: expect.stringContaining("undone already") });
  });

  it("an undo is refused when no effect can be undone", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { status: "errored" });
    await seedEffect(id, { step: "send mail", state: "done" });
    const plan = await caller.post(`/v1/instances/${id}/undo`, { reason: "called off", dry_run: true });
    expect(plan.body).toMatchObject({
      refused: expect.stringContaining("no recorded effect that can be undone"),
      effects: [{ step: "send mail", item: "", verdict: "stays" }],
    });
    const refused = expectProblem(await caller.post(`/v1/instances/${id}/undo`, { reason: "called off" }), 409, "invalid_transition");
    expect(refused.detail).toContain("no recorded effect that can be undone");
    expect((await caller.get(`/v1/instances/${id}`)).body).toMatchObject({ status: "errored", undo: null });
    expect((await caller.get("/v1/audit")).body.items).toMatchObject([{ verb: "undo", target: id, result: "no_change" }]);
  });

  it("an undo is refused while the instance runs, for any wait, and a dry run gives the same reason", async () => {
    const caller = await callerWith();
    for (const status of ["accepted", "queued", "running", "waiting", "in_doubt", "dead", "skipped"]) {
      const id = await seedInstance(caller.tenantId, { status });
      const refused = expectProblem(await caller.post(`/v1/instances/${id}/undo`, { reason: "now" }), 409, "invalid_transition");
      expect(refused.from).toBe(status);
      const { body } = await caller.post(`/v1/instances/${id}/undo`, { reason: "now", dry_run: true });
      expect(body.refused).toBe(refused.detail);
    }
  });

  it("an undo requires a reason, and an instance of the caller's tenant", async () => {
    const caller = await callerWith();
    const id = await seedInstance((await callerWith()).tenantId);
    expectProblem(await caller.post(`/v1/instances/${id}/undo`, {}), 422, "invalid_payload");
    for (const dry_run of [true, false])
      expectProblem(await caller.post(`/v1/instances/${id}/undo`, { reason: "r", dry_run }), 404, "instance_not_found");
    expect(await env.DB.prepare("SELECT status, undo FROM millrace_instances WHERE id = ?1").bind(id).first()).toEqual({
      status: "complete",
      undo: null,
    });
  });
});
