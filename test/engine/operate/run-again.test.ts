import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { actOnWork } from "../../../packages/millrace/src/operate/pause-work.ts";
import { app } from "../../probe/worker.ts";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { deliver, dieAt, event, fresh, keeperRound, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { failsUntilMended, runLab } from "../lab.ts";
import { theOperator } from "./bulk/bulk.ts";
import { play, scene } from "./scene.ts";

/** A complete run, and the number of times that its effect happened. */
async function complete(more: { tenantId?: string; note?: string } = {}) {
  const did = { times: 0 };
  const { instanceId: id, name } = await runLab(
    ({ step }) =>
      step.commit("work", () => {
        did.times++;
        return {};
      }),
    more,
  );
  expect(await reaches(id, "complete", "errored")).toBe("complete");
  return { id, name, did };
}

const again = (id: string, key?: string) =>
  instances.act(probeEnv, operator, "run-again", id, { reason: "once more" }, { catalog: app, ...(key && { key }) });
const plan = (id: string, key?: string) => instances.plan(probeEnv, operator, "run-again", id, {}, { catalog: app, ...(key && { key }) });

describe("Run again", () => {
  it("run again starts a copy of a complete instance under a derived key, with its payload, correlation and cause", async () => {
    const { id, name, did } = await complete();
    const { action_id, instance_id, replayed } = await again(id);
    expect(replayed).toBe(false);
    expect(await reaches(instance_id, "complete", "errored")).toBe("complete");
    expect(did.times).toBe(2);
    const [first, second] = [await instances.get(probeEnv, operator, id), await instances.get(probeEnv, operator, instance_id)];
    expect(second).toMatchObject({ workflow: "lab", subject: first.subject, correlation_id: first.correlation_id });
    expect(second.idempotency_key).toMatch(new RegExp(`^${name}/again/[0-9a-f]{32}$`));
    expect(second.causation_id).toBe(`${id}/run again`);
    const [audit] = await rows(
      "SELECT verb, target, result, reason, detail->>'instance' AS new FROM millrace_actions WHERE id = ?1",
      action_id,
    );
    expect(audit).toEqual({ verb: "run_again", target: id, result: "applied", reason: "once more", new: instance_id });
    // The key of a copy of a copy does not grow.
    const third = await instances.get(probeEnv, operator, (await again(instance_id)).instance_id);
    expect(third.idempotency_key).toMatch(new RegExp(`^${name}/again/[0-9a-f]{32}$`));
  });

  it("the copy of a run again has the tags of the original, those of its request too", async () => {
    const caller = await asking();
    const id = await ask(caller, async () => null, { tags: ["customer:acme"] });
    expect(await reaches(id, "complete")).toBe("complete");
    const by = { tenantId: caller.tenantId, actor: "tess" };
    const { tags } = await instances.get(probeEnv, by, id);
    const { instance_id } = await instances.act(probeEnv, by, "run-again", id, { reason: "once more" }, { catalog: app });
    expect((await instances.get(probeEnv, by, instance_id)).tags).toEqual(tags);
    expect((await caller.get("/v1/instances?tag=customer:acme")).body.items.map((one: { id: string }) => one.id)).toEqual([
      instance_id,
      id,
    ]);
  });

  it("run again starts one instance for any number of requests with one key, and one for each request without a key", async () => {
    const { id } = await complete();
    const sent = await Promise.all([1, 2, 3].map(() => again(id, "a click")));
    expect(new Set(sent.map(({ instance_id }) => instance_id)).size).toBe(1);
    expect(sent.filter(({ replayed }) => !replayed)).toHaveLength(1);
    const others = [await again(id), await again(id, "another click")];
    expect(new Set([...sent, ...others].map(({ instance_id }) => instance_id)).size).toBe(3);
  });

  it("run again starts a copy of an instance that an event started, without a queue", async () => {
    const name = fresh("event");
    await deliver("probe-events", [event("probe.done", name, { name, step: "s" }, `${name}/done`)]);
    const ofEvent = () =>
      rows<{ id: string; queue: string | null }>(
        "SELECT id, queue FROM millrace_instances WHERE workflow = 'count-done' AND subject = ?1",
        name,
      );
    const [first] = await until(ofEvent, ({ length }) => length === 1);
    expect(await reaches(first?.id ?? "", "complete")).toBe("complete");
    const { instance_id } = await again(first?.id ?? "");
    expect(await reaches(instance_id, "complete")).toBe("complete");
    expect(await rows("SELECT 1 FROM probe_rows WHERE name = ?1 AND kind = 'event'", name)).toHaveLength(2);
  });

  it.each(["lab", "count-done"])("the copy of a run again of %s starts only after the resume of its paused workflow", async (workflow) => {
    const name = fresh("event");
    const tenantId = fresh("tenant");
    const by = { tenantId, actor: "tess", scopes: ["operate"] as const };
    const ofEvent = { ...event("probe.done", name, { name, step: "s" }, `${name}/done`), tenant_id: tenantId };
    await (workflow === "lab" ? complete({ tenantId }) : deliver("probe-events", [ofEvent]));
    const all = () => rows<{ id: string }>("SELECT id FROM millrace_instances WHERE tenant_id = ?1 AND workflow = ?2", tenantId, workflow);
    const [{ id = "" } = {}] = await until(all, ({ length }) => length === 1);
    await reaches(id, "complete");
    const work = { kind: "workflow", name: workflow, allTenants: false } as const;
    await actOnWork(probeEnv, app, by, "pause", work, { reason: "closed" });
    const { instance_id } = await instances.act(probeEnv, by, "run-again", id, { reason: "once more" }, { catalog: app });
    // The message of another tenant's run consequence the copy's message in the queue.
    await complete();
    for (let round = 0; round < 3; round++) await keeperRound();
    expect(await statusOf(instance_id)).toBe("accepted");
    await actOnWork(probeEnv, app, by, "resume", work, { reason: "open again" });
    await keeperRound();
    expect(await reaches(instance_id, "complete", "errored")).toBe("complete");
  });

  it("a dry run of run again returns the key of the copy, and starts nothing", async () => {
    const { id, name } = await complete();
    expect(await plan(id)).toMatchObject({
      refused: null,
      consequence: expect.stringContaining(`under the key "${name}/again/<id of the action>"`),
      effects: [{ step: "work", item: "", verdict: "runs" }],
    });
    expect((await plan(id, "a click")).consequence).toMatch(new RegExp(`"${name}/again/[0-9a-f]{32}"`));
    expect(await rows("SELECT 1 FROM millrace_instances WHERE causation_id = ?1", `${id}/run again`)).toEqual([]);
  });

  it("a dry run of run again lists every effect of the run: undone, failed without a record, and recorded", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "natural");
      await its.act(step, "b", "natural");
    });
    await reaches(id, "complete");
    const effects = [
      { step: "a", item: "", verdict: "runs" },
      { step: "b", item: "", verdict: "runs" },
    ];
    expect((await plan(id)).effects).toEqual(effects);
    await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
    await reaches(id, "terminated");
    expect((await plan(id)).effects).toEqual(effects);
    const { instanceId } = await failsUntilMended();
    await reaches(instanceId, "errored");
    expect((await plan(instanceId)).effects).toEqual([expect.objectContaining({ verdict: "runs" })]);
  });

  it("a dry run over HTTP returns the key of the copy for an Idempotency-Key", async () => {
    const caller = await asking();
    const id = await ask(caller, async () => null);
    expect(await reaches(id, "complete")).toBe("complete");
    const { ask: request } = await theOperator(["operate"], caller.tenantId);
    const { body } = await request<{ consequence: string }>(
      `/v1/instances/${id}/run-again`,
      { reason: "r", dry_run: true },
      { "idempotency-key": "k" },
    );
    expect(body.consequence).toMatch(/again\/[0-9a-f]{32}"/);
  });

  it("run again is refused with a reason, and audited, while the instance runs and after its payload is deleted", async () => {
    const { instanceId } = await failsUntilMended();
    await reaches(instanceId, "errored");
    await probeEnv.DB.prepare("UPDATE millrace_instances SET status = 'waiting' WHERE id = ?1").bind(instanceId).run();
    const large = await complete({ note: "x".repeat(40_000) });
    const [stored] = await rows<{ ref: string }>("SELECT envelope->>'payload_ref' AS ref FROM millrace_instances WHERE id = ?1", large.id);
    await probeEnv.PAYLOADS.delete(stored?.ref.replace("r2://", "") ?? "");
    for (const [id, why] of [
      [instanceId, "The instance is waiting: only an instance that has ended can run again."],
      [large.id, "The payload of the instance is no longer stored: send its command again."],
    ] as const) {
      expect((await plan(id)).refused).toBe(why);
      await expect(again(id)).rejects.toMatchObject({ code: "invalid_transition", message: why });
      expect(await rows("SELECT result FROM millrace_actions WHERE target = ?1 AND verb = 'run_again'", id)).toEqual([
        { result: "no_change" },
      ]);
    }
    const globex = { tenantId: "globex", actor: "gus" };
    await expect(instances.act(probeEnv, globex, "run-again", large.id, { reason: "mine?" }, { catalog: app })).rejects.toMatchObject({
      code: "instance_not_found",
    });
  });

  it("A03 the copy of a run again is started by the keeper if the process dies after the commit", async () => {
    const { id, did } = await complete();
    dieAt("A03 accept committed, not enqueued");
    await expect(again(id)).rejects.toThrow("Died");
    await probeEnv.DB.prepare("UPDATE millrace_instances SET check_at = 0 WHERE causation_id = ?1").bind(`${id}/run again`).run();
    await until(
      async () => {
        await keeperRound();
        return did.times;
      },
      (times) => times === 2,
    );
  });

  it("a bulk action runs each instance of a filter again, and counts the ends of the new instances", async () => {
    const tenant = await theOperator();
    const state = { fails: false };
    const runs: string[] = [];
    for (let n = 0; n < 3; n++) {
      const { instanceId } = await runLab(
        async ({ step }) =>
          step.commit(
            "work",
            () => {
              if (state.fails) throw new Error("Broken.");
              return {};
            },
            { retries: { limit: 0, delay: 10 } },
          ),
        { tenantId: tenant.tenantId, name: fresh("lab") },
      );
      runs.push(instanceId);
      await reaches(instanceId, "complete");
    }
    const asked = { verb: "run_again", filter: { status: "complete", workflow: "lab", since: "2020-01-01T00:00:00Z" } };
    const planned = await tenant.ask<{ matched: number; sample: { refused: string | null }[]; consequence: string }>("/v1/bulk-actions", {
      reason: "look",
      dry_run: true,
      ...asked,
    });
    expect(planned.body).toMatchObject({ matched: 3, sample: [{ refused: null }, { refused: null }, { refused: null }] });
    const { body } = await tenant.start(asked);
    expect(await tenant.over(body.id)).toMatchObject({ state: "complete", matched: 3, done: 3, failed: 0 });
    const copies = await rows<{ status: string; cause: string }>(
      "SELECT status, substr(causation_id, 1, 32) AS cause FROM millrace_instances WHERE tenant_id = ?1 AND causation_id LIKE '%/run again'",
      tenant.tenantId,
    );
    expect(copies.map(({ cause }) => cause).toSorted()).toEqual(runs.toSorted());
    state.fails = true;
    const { body: second } = await tenant.start({ verb: "run_again", ids: runs.slice(0, 1) });
    expect(await tenant.over(second.id)).toMatchObject({ done: 0, failed: 1 });
  });
});
