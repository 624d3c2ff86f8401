import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type Caller, callerWith, expectProblem, fresh, reaches } from "./client.ts";
import { seedEffect, seedInstance } from "./seed.ts";

/** An effect in doubt, of an instance on the platform. */
async function doubtful(caller: Caller) {
  const { body } = await caller.ask(fresh());
  await reaches(caller, body.instance_id, "complete");
  await env.DB.prepare("UPDATE millrace_instances SET status = 'in_doubt' WHERE id = ?1").bind(body.instance_id).run();
  return { instanceId: body.instance_id, key: await seedEffect(body.instance_id) };
}

describe("An effect in doubt", () => {
  it("an effect with an unknown outcome is listed with its request", async () => {
    const caller = await callerWith();
    const { instanceId, key } = await doubtful(caller);
    for (const path of ["/v1/effects?state=in_doubt", "/v1/effects"]) {
      const { body } = await caller.get(path);
      expect(body.items).toMatchObject([{ key, instance_id: instanceId, class: "once", state: "in_doubt", input: { to: "x" } }]);
    }
    expectProblem(await caller.get("/v1/effects?state=done"), 422, "invalid_payload");
  });

  it("effects with an unknown outcome are listed in pages, oldest first, and filtered by workflow and step", async () => {
    const caller = await callerWith();
    const instanceId = await seedInstance(caller.tenantId, { status: "in_doubt" });
    const other = await seedInstance(caller.tenantId, { status: "in_doubt", workflow: "publish-article" });
    const keys: string[] = [];
    for (const [of, step] of [
      [instanceId, "a"],
      [instanceId, "b"],
      [other, "b"],
    ] as const)
      keys.push(await seedEffect(of, { step }));
    const list = async (query: string) => {
      const { status, body } = await caller.get(`/v1/effects?${query}`);
      expect(status).toBe(200);
      return { keys: body.items.map(({ key }: { key: string }) => key), next: body.next_cursor };
    };
    expect((await list("")).keys.toSorted()).toEqual(keys.toSorted());
    const seen: string[] = [];
    for (let next: string | null = ""; next !== null; ) {
      const found = await list(`limit=1${next && `&cursor=${next}`}`);
      seen.push(...found.keys);
      next = found.next;
    }
    expect(seen.toSorted()).toEqual(keys.toSorted());
    expect((await list("workflow=publish-article")).keys).toEqual([keys[2]]);
    expect((await list("step=a")).keys).toEqual([keys[0]]);
    expect((await list("step=b&workflow=research-keyword")).keys).toEqual([keys[1]]);
    const { issues } = expectProblem(await caller.get("/v1/effects?workflow=publish-articel"), 422, "invalid_payload");
    expect(issues[0].message).toContain("perhaps `publish-article` is meant");
    expectProblem(await caller.get("/v1/effects?cursor=1.x"), 422, "invalid_payload");
  });

  it.each([
    ["confirm", { output: { sent: true } }, "confirm", [{ state: "confirmed", output: { sent: true } }]],
    ["confirm", { output: null }, "confirm", [{ state: "confirmed", output: null }]],
    ["reject", {}, "reject", [{ state: "failed", output: null }]],
    ["retry", {}, "retry_anyway", [{ state: "superseded" }]],
  ])(
    "an effect with an unknown outcome can be resolved by %s %j, and the resolution is audited",
    async (verb, extra, recorded, effects) => {
      const caller = await callerWith();
      const { instanceId, key } = await doubtful(caller);
      const { status, body } = await caller.post(`/v1/effects/${key}/${verb}`, { reason: "I looked", ...extra });
      expect([status, body]).toEqual([202, { action_id: expect.any(String), instance_id: instanceId }]);
      const { body: after } = await caller.get(`/v1/instances/${instanceId}/effects`);
      expect(after.items.filter(({ step }: { step: string }) => step === "send mail")).toMatchObject(effects);
      const { body: audit } = await caller.get("/v1/audit");
      expect(audit.items).toMatchObject([{ id: body.action_id, verb: recorded, target: key, reason: "I looked", result: "applied" }]);

      const again = expectProblem(
        await caller.post(`/v1/effects/${key}/${verb}`, { reason: "again", ...extra }),
        409,
        "invalid_transition",
      );
      expect(again.from).toBe(effects[0]?.state);
    },
  );

  it("an effect is not confirmed without the output that the step returns (null for none)", async () => {
    const caller = await callerWith();
    const { instanceId, key } = await doubtful(caller);
    const refused = expectProblem(await caller.post(`/v1/effects/${key}/confirm`, { reason: "I looked" }), 422, "invalid_payload");
    expect(refused.issues).toEqual([{ path: "output", message: expect.stringContaining("null if it has none") }]);
    expect((await caller.get(`/v1/instances/${instanceId}`)).body.status).toBe("in_doubt");
  });

  it("an effect with an unknown outcome blocks a retry of its instance, and the refusal names the alternative", async () => {
    const caller = await callerWith();
    const { instanceId } = await doubtful(caller);
    const dry = await caller.post(`/v1/instances/${instanceId}/retry`, { reason: "again", dry_run: true });
    const real = expectProblem(await caller.post(`/v1/instances/${instanceId}/retry`, { reason: "again" }), 409, "invalid_transition");
    expect(real.detail).toContain("resolve it (GET /v1/effects?state=in_doubt");
    expect(dry.body.refused).toBe(real.detail);
  });

  it("an effect with an unknown key is not found", async () => {
    const caller = await callerWith();
    for (const key of ["x", "%00", "bnVsbA", "W10"])
      expectProblem(await caller.post(`/v1/effects/${key}/reject`, { reason: "r" }), 404, "effect_not_found");
  });

  it("a resolution of an effect with unknown fields is refused", async () => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/effects/x/reject", { reason: "r", output: 1 });
    expect(expectProblem(answer, 422, "invalid_payload").issues).toMatchObject([{ path: "output" }]);
  });
});
