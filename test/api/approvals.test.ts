import { env } from "cloudflare:workers";
import { approvals } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { watched } from "../systems/facts/watched.ts";
import { callerWith, expectProblem, type Json } from "./client.ts";
import { seedApproval, seedInstance } from "./seed.ts";

describe("Questions to operators over HTTP", () => {
  it("questions are listed newest first, page by page, and filtered by state, workflow and instance", async () => {
    const caller = await callerWith();
    const ids = [];
    for (const state of ["pending", "approved", "pending"]) {
      const id = await seedApproval(caller.tenantId, { state });
      await env.DB.prepare("UPDATE millrace_approvals SET asked_at = ?2 WHERE id = ?1").bind(id, ids.push(id)).run();
    }
    const listed = async (query: string) => (await caller.get(`/v1/approvals?${query}`)).body.items.map(({ id }: Json) => id);
    expect(await listed("")).toEqual(ids.toReversed());
    expect(await listed("state=pending")).toEqual([ids[2], ids[0]]);
    expect(await listed("workflow=publish-article")).toEqual([]);
    expect(await listed(`instance=${ids[1]?.slice(0, 32)}`)).toEqual([ids[1]]);
    const { body: first } = await caller.get("/v1/approvals?limit=2");
    expect(await listed(`limit=2&cursor=${first.next_cursor}`)).toEqual([ids[0]]);
    expectProblem(await caller.get("/v1/approvals?state=open"), 422, "invalid_payload");
  });

  it("an instance's questions are found without reading all questions of the tenant", async () => {
    const caller = await callerWith();
    const id = await seedApproval(caller.tenantId);
    const { db, ran } = watched();
    const page = { instance: id.slice(0, 32), state: "pending", limit: 10 } as const;
    const { items } = await approvals.list({ ...env, DB: db }, { tenantId: caller.tenantId, actor: "ada" }, page);
    expect(items.map((one) => one.id)).toEqual([id]);
    expect(ran[0]?.plan.join()).toContain("PRIMARY KEY (instance_id=?)");
    const { items: none } = await approvals.list(env, { tenantId: "another", actor: "ada" }, page);
    expect(none).toEqual([]);
  });

  it("a question shows the effects of an approval and the deadline for the answer", async () => {
    const caller = await callerWith();
    const id = await seedApproval(caller.tenantId);
    const { body } = await caller.get(`/v1/approvals/${id}`);
    expect(body).toMatchObject({
      id,
      question: "May it happen?",
      details: { title: "Mint" },
      state: "pending",
      otherwise: "reject",
      decided_by: null,
      decided_at: null,
    });
    expect(Date.parse(body.due_at)).toBeGreaterThan(Date.parse(body.asked_at));
  });

  it.each([
    ["approve", "approved", "approve"],
    ["reject", "rejected", "reject_approval"],
  ])('a question accepts the answer "%s" once, with a reason, and the answer is audited', async (verb, state, recorded) => {
    const caller = await callerWith();
    const id = await seedApproval(caller.tenantId);
    expectProblem(await caller.post(`/v1/approvals/${id}/${verb}`, {}), 422, "invalid_payload");
    const { status, body } = await caller.post(`/v1/approvals/${id}/${verb}`, { reason: "I read it" });
    expect([status, body]).toEqual([202, { action_id: expect.any(String), instance_id: id.slice(0, 32) }]);
    const { body: after } = await caller.get(`/v1/approvals/${id}`);
    expect(after).toMatchObject({ state, decided_by: "ada", reason: "I read it" });

    const again = expectProblem(await caller.post(`/v1/approvals/${id}/approve`, { reason: "again" }), 409, "invalid_transition");
    expect(again).toMatchObject({ from: state, to: "approved", detail: expect.stringContaining("by ada") });
    const { body: audit } = await caller.get("/v1/audit");
    expect(audit.items.map(({ verb, result }: Json) => [verb, result])).toEqual(
      expect.arrayContaining([
        [recorded, "applied"],
        ["approve", "no_change"],
      ]),
    );
  });

  it("a question accepts no answer after its deadline", async () => {
    const caller = await callerWith();
    const id = await seedApproval(caller.tenantId, { dueAt: 1000 });
    const late = expectProblem(await caller.post(`/v1/approvals/${id}/approve`, { reason: "late" }), 409, "invalid_transition");
    expect(late).toMatchObject({ from: "overdue", to: "approved", detail: expect.stringContaining("1970-01-01T00:00:01.000Z") });
  });

  it("a question is visible to its own tenant only", async () => {
    const other = await callerWith();
    const id = await seedApproval((await callerWith()).tenantId);
    expectProblem(await other.get(`/v1/approvals/${id}`), 404, "approval_not_found");
    for (const verb of ["approve", "reject"])
      expectProblem(await other.post(`/v1/approvals/${id}/${verb}`, { reason: "r" }), 404, "approval_not_found");
    expectProblem(await other.get(`/v1/approvals/${await seedInstance(other.tenantId)}`), 404, "approval_not_found");
    expect((await other.get("/v1/approvals")).body.items).toEqual([]);
  });
});
