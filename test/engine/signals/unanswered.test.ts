import { env } from "cloudflare:workers";
import { approvals } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { dieAt, fresh, operator, probeEnv, reaches, rows, start } from "../harness.ts";
import { asking, audited, LONG, outputs } from "./asking.ts";

describe("A question that is not answered in time", () => {
  it.each([
    { otherwise: undefined, approved: false },
    { otherwise: "reject" as const, approved: false },
    { otherwise: "approve" as const, approved: true },
  ])("a question that times out with otherwise $otherwise has approved $approved and no approver", async ({ otherwise, approved }) => {
    const { instanceId, id } = await asking(fresh(), { timeoutMs: 300, ...(otherwise && { otherwise }) });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await outputs(instanceId))[1]).toEqual({ approved, by: null, reason: null });
    expect(await approvals.get(probeEnv, operator, id)).toMatchObject({ state: approved ? "approved" : "rejected", decided_by: null });
  });

  it("an answer after a question's timeout is refused, with the question's status", async () => {
    const { instanceId, id } = await asking(fresh(), { timeoutMs: 300 });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    await expect(approvals.decide(probeEnv, operator, id, "approve", "late")).rejects.toMatchObject({
      code: "invalid_transition",
      detail: { from: "rejected", to: "approved" },
      message: expect.stringContaining("The question timed out"),
    });
    expect(await audited(instanceId)).toMatchObject([{ verb: "approve", result: "no_change" }]);
  });

  it("an answer between a question's due time and its timeout on the platform is refused", async () => {
    const { instanceId, id } = await asking();
    await env.DB.prepare("UPDATE millrace_approvals SET due_at = 1 WHERE id = ?1").bind(id).run();
    await expect(approvals.decide(probeEnv, operator, id, "approve", "late")).rejects.toMatchObject({
      code: "invalid_transition",
      detail: { from: "overdue", to: "approved" },
    });
    // After this restart the replay does not wait for the whole timeout again, because the due time has passed.
    await (await probeEnv.PROBE.get(instanceId)).restart();
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await outputs(instanceId))[1]).toEqual({ approved: false, by: null, reason: null });
  });

  it("an answer just before a question's timeout is used", async () => {
    const { instanceId, id } = await asking(fresh(), { timeoutMs: 1500, otherwise: "approve" });
    // The answer is stored and its delivery is lost. The wait times out and reads the answer.
    dieAt("question answered, instance not notified");
    await expect(approvals.decide(probeEnv, operator, id, "reject", "just in time")).rejects.toThrow("Died");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await outputs(instanceId))[1]).toEqual({ approved: false, by: "tess", reason: "just in time" });
  });
});

describe("An invalid question", () => {
  it("an invalid question is refused before an operator sees it, and its run fails", async () => {
    const { instanceId } = await start(fresh(), [{ do: "approve", name: "ask", subject: "x".repeat(500), ...LONG }]);
    expect(await reaches(instanceId, "errored", "waiting")).toBe("errored");
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "null")).toMatchObject({ step: "ask", code: "invalid_payload", attempts: 1 });
    expect(await rows("SELECT id FROM millrace_approvals WHERE instance_id = ?1", instanceId)).toEqual([]);
  });
});
