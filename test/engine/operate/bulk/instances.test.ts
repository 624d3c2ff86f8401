import { upstreamRefused } from "millrace";
import { describe, expect, it } from "vitest";
import { howMany } from "../../../full-size.ts";
import { dieAt, envelopeOf, keeperRound, pauseAt, probeEnv, reaches, rows, until } from "../../harness.ts";
import { held } from "../../lab.ts";
import { auditOf, balanced, countOf, failedRuns, type TheOperator, theOperator } from "./bulk.ts";

const ONCE = { retries: { limit: 0, delay: 10 } } as const;

/**
 * Runs that fail until they are fixed, with counts of their attempts and effects. At most `may.end` of the fixed runs complete, and a
 * bulk action begins the next stage only when the runs of its stage have ended.
 */
async function broken(operator: TheOperator, count: number, may = { end: Number.POSITIVE_INFINITY }) {
  const state = { isBroken: true, begun: 0 };
  const did = new Map<string, number>();
  const tried = new Map<string, number>();
  const ids = await failedRuns(operator.tenantId, count, async ({ step, payload: { name } }) => {
    const nth = state.isBroken ? 0 : ++state.begun;
    await held(() => nth <= may.end);
    await step.commit(
      "work",
      () => {
        tried.set(name, (tried.get(name) ?? 0) + 1);
        if (state.isBroken) throw upstreamRefused("The page store is unavailable.");
        did.set(name, (did.get(name) ?? 0) + 1);
        return {};
      },
      ONCE,
    );
  });
  const mend = () => {
    state.isBroken = false;
  };
  return { ids, did, tried, mend };
}

/** Restarts the workflow instance that performs a bulk action, as the platform does after a killed process. */
async function restarted(instanceId: string): Promise<void> {
  const binding = (probeEnv as unknown as { BULK_ACTION: Workflow }).BULK_ACTION;
  await (await binding.get(instanceId)).restart();
}

describe("A bulk retry", () => {
  it("B01 B02 a bulk retry with a process that dies repeatedly retries each failed instance once, and all complete", async () => {
    const operator = await theOperator();
    const count = howMany(25, 1000);
    const may = { end: 0 };
    const { did, mend } = await broken(operator, count, may);
    mend();
    const asked = { verb: "retry", filter: { status: "errored", workflow: "lab" }, ramp: [1, 10], rate_per_second: howMany(15, 100) };
    const { body } = await operator.start(asked);
    expect(body).toMatchObject({ state: "running", matched: count });
    // The process dies between two items of a chunk, then after a chunk and before its record. Then the platform restarts the instance.
    for (const [point, done, end] of [
      ["B01 one item changed, chunk not over", 1, 1],
      ["B02 items changed, chunk not recorded", 1, 1],
      ["B01 one item changed, chunk not over", 11, Number.POSITIVE_INFINITY],
    ] as const) {
      await until(
        async () => balanced(await operator.show(body.id)),
        (bulk) => bulk.done >= done || bulk.state !== "running",
      );
      const death = dieAt(point, body.id);
      may.end = end;
      expect(await until(async () => death.died(), Boolean)).toBe(true);
    }
    const { instance_id } = await operator.show(body.id);
    await restarted(instance_id);
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", done: count, skipped: 0, failed: 0, remaining: 0 });
    expect(await countOf(operator.tenantId, "complete")).toBe(count);
    expect([...did.values()]).toEqual(Array.from({ length: count }, () => 1));
    const audit = await auditOf(body.id);
    expect([audit.length, new Set(audit.map(({ target }) => target)).size]).toEqual([count, count]);
    expect(audit.every(({ verb, result }) => verb === "retry" && result === "applied")).toBe(true);
  });

  it("a bulk retry stops when the share of failures in a stage exceeds the limit, and continues when an operator resumes it", async () => {
    const operator = await theOperator();
    const { ids, mend } = await broken(operator, 13);
    const { body } = await operator.start({ verb: "retry", filter: {}, ramp: [1, 10] });
    const stopped = await operator.over(body.id);
    expect(stopped).toMatchObject({
      state: "stopped",
      done: 0,
      failed: 1,
      remaining: 12,
      why: "The bulk action stopped itself: 1 of 1 items of this stage failed, and the limit is 10 %. Read the reason of each failure (items with the result failed), fix the cause, and resume it: it continues with the 12 that remain. It does not repeat failed items: start another bulk action over them.",
    });
    expect(await operator.items(body.id, "failed")).toMatchObject([
      { n: 0, target: expect.stringMatching(new RegExp(ids.join("|"))), code: "upstream_refused", why: "The page store is unavailable." },
    ]);
    mend();
    expect((await operator.ask(`/v1/bulk-actions/${body.id}/resume`, { reason: "it is back" })).body).toMatchObject({ state: "running" });
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", done: 12, failed: 1, remaining: 0 });
    expect(await operator.items(body.id, "failed")).toHaveLength(1);
  });

  it("B02 a bulk retry that is halted and resumed while a chunk runs refuses the late record of that chunk, and retries no run twice", async () => {
    const operator = await theOperator();
    const { did, mend } = await broken(operator, 12);
    mend();
    const held = pauseAt("B02 items changed, chunk not recorded", operator.idOf("once"));
    const { body } = await operator.start({ verb: "retry", filter: {}, ramp: [] }, { "idempotency-key": "once" });
    await until(async () => held.reached(), Boolean);
    expect((await operator.ask(`/v1/bulk-actions/${body.id}/abort`, { reason: "wait" })).body).toMatchObject({
      state: "aborted",
      remaining: 12,
    });
    const resumed = await operator.ask(`/v1/bulk-actions/${body.id}/resume`, { reason: "go on" });
    expect(resumed).toMatchObject({ status: 202, body: { state: "running" } });
    const end = await operator.over(body.id);
    held.release();
    expect(end).toMatchObject({ state: "complete", done: 12, remaining: 0 });
    expect(await reaches(body.instance_id, "complete")).toBe("complete");
    expect(await operator.show(body.id)).toMatchObject({ done: 12, skipped: 0, failed: 0 });
    expect([...did.values()]).toEqual(Array.from({ length: 12 }, () => 1));
    expect(await auditOf(body.id)).toHaveLength(12);
  });

  it("B02 a bulk retry that is halted after a crash records the results of its unrecorded chunk before it stops", async () => {
    const operator = await theOperator();
    const { did, mend } = await broken(operator, 6);
    mend();
    const death = dieAt("B02 items changed, chunk not recorded", operator.idOf("once"));
    const { body } = await operator.start({ verb: "retry", filter: {}, ramp: [] }, { "idempotency-key": "once" });
    await until(async () => death.died(), Boolean);
    await operator.ask(`/v1/bulk-actions/${body.id}/abort`, { reason: "wait" });
    expect(await reaches(body.instance_id, "complete")).toBe("complete");
    expect(await operator.show(body.id)).toMatchObject({ state: "aborted", done: 6, remaining: 0 });
    expect(did.size).toBe(6);
  });

  it("B02 a bulk retry retries no run twice when a crash repeats a chunk and its runs have failed again", async () => {
    const operator = await theOperator();
    const { tried } = await broken(operator, 3);
    const death = dieAt("B02 items changed, chunk not recorded", operator.idOf("once"));
    const asked = { verb: "retry", filter: {}, ramp: [], stop_at_error_rate: 1 };
    const { body } = await operator.start(asked, { "idempotency-key": "once" });
    const end = await operator.over(body.id);
    expect(death.died()).toBe(true);
    expect(end).toMatchObject({ state: "complete", done: 0, failed: 3 });
    expect([...tried.values()]).toEqual([2, 2, 2]);
    const runs = await rows<{ run: number }>(
      "SELECT run FROM millrace_instances WHERE tenant_id = ?1 AND workflow = 'lab'",
      operator.tenantId,
    );
    expect(runs.map(({ run }) => run)).toEqual([2, 2, 2]);
    expect(await auditOf(body.id)).toHaveLength(3);
  });

  it("two concurrent bulk retries with the same filter retry each instance once: the later bulk retry skips the instance and names the operator", async () => {
    const operator = await theOperator();
    const { did, mend } = await broken(operator, 10);
    mend();
    const started = await Promise.all([1, 2].map(() => operator.start({ verb: "retry", filter: {}, ramp: [] })));
    const ends = await Promise.all(started.map(({ body }) => operator.over(body.id)));
    expect(ends.map(({ state }) => state)).toEqual(["complete", "complete"]);
    expect(ends.map(({ failed, remaining }) => failed + remaining)).toEqual([0, 0]);
    expect(ends.reduce((sum, { done }) => sum + done, 0)).toBe(10);
    expect(ends.reduce((sum, { skipped }) => sum + skipped, 0)).toBe(10);
    const left = (await Promise.all(started.map(({ body }) => operator.items(body.id, "skipped")))).flat();
    const who = /^Last action by tess: retry, \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\. The instance is /;
    expect(left.map(({ why }) => why)).toEqual(left.map(() => expect.stringMatching(who)));
    expect([...did.values()]).toEqual(Array.from({ length: 10 }, () => 1));
  });

  it("a bulk retry with a failed workflow instance reports that instance, and an operator can resume the bulk retry", async () => {
    const operator = await theOperator();
    const { mend } = await broken(operator, 3);
    mend();
    const { body } = await operator.start({ verb: "retry", filter: {}, ramp: [1] });
    await rows("UPDATE millrace_instances SET status = 'errored' WHERE id = ?1", body.instance_id);
    const left = await operator.show(body.id);
    if (left.state !== "complete") expect(left).toMatchObject({ state: "stopped", why: expect.stringContaining(body.instance_id) });
    await operator.ask(`/v1/bulk-actions/${body.id}/resume`, { reason: "go on" });
    await keeperRound();
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", done: 3 });
  });

  it("B03 a bulk retry of many stages continues in a new workflow instance after its maximum of turns, also after a crash between the two", async () => {
    const operator = await theOperator();
    // Each stage needs one turn that acts, and another one if its run has not ended by then. Together they exceed the turns of one
    // replay.
    const may = { end: 0 };
    const { mend } = await broken(operator, 20, may);
    mend();
    const death = dieAt("B03 chunk ended, next run not started", operator.idOf("once"));
    const { body } = await operator.start(
      { verb: "retry", filter: {}, ramp: Array.from({ length: 20 }, () => 1) },
      { "idempotency-key": "once" },
    );
    await until(
      async () => (may.end = (await operator.show(body.id)).done),
      (done) => done > 12,
    );
    may.end = Number.POSITIVE_INFINITY;
    const end = await operator.over(body.id);
    expect(death.died()).toBe(true);
    expect(end).toMatchObject({ state: "complete", done: 20 });
    expect(end.instance_id).not.toBe(body.instance_id);
    expect(await reaches(end.instance_id, "complete")).toBe("complete");
    // A continuation does not count as a hop of the previous instance, because a bulk action may have seventy.
    expect((await envelopeOf(end.instance_id)).path).toBeUndefined();
    expect(await auditOf(body.id)).toHaveLength(20);
  });
});
