import { createExecutionContext } from "cloudflare:test";
import { defineConsumer, defineWorkflow } from "millrace";
import { engineRoutes } from "millrace/http";
import { tokens } from "millrace/operate";
import { settleCounts } from "millrace/testing";
import { catalog } from "millrace/worker";
import { expect, it } from "vitest";
import { count } from "../../../../packages/millrace/src/observe/metrics/count.ts";
import { ProbeFollow, ProbeRequested, probeCommands } from "../../../probe/messages.ts";
import { app } from "../../../probe/worker.ts";
import { fresh, probeEnv, reaches, retentionPass, rows, start } from "../../harness.ts";
import { countRows, endedJob, shownOf } from "./counted.ts";

async function ask(path: string, scopes: readonly string[], tenantId = "acme", api = engineRoutes(app)) {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes });
  const request = new Request(`http://localhost${path}`, { headers: { authorization: `Bearer ${token}` } });
  const response = await api.fetch(request, probeEnv, createExecutionContext());
  // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read
  return { status: response.status, body: (await response.json()) as any };
}

it("the cost of an instance is visible to its own tenant only", async () => {
  const { instanceId } = await start(fresh(), [{ do: "commit", name: "a" }]);
  await reaches(instanceId, "complete");
  const { body } = await ask(`/v1/instances/${instanceId}`, ["read"]);
  expect(body.cost.parts.rows_written).toEqual({ amount: 9, mark: "counted", usd: 0.000009 });
  expect(body.cost.usd).toBeGreaterThan(body.cost.usd_counted);
  expect(await ask(`/v1/instances/${instanceId}`, ["read"], fresh("other"))).toMatchObject({ status: 404 });
});

it("the shown cost of a workflow is computed from its newest runs and its current rate of runs, and names no tenant", async () => {
  const ids = await Promise.all(
    [1, 2, 3].map(
      async () =>
        (
          await start(fresh(), [
            { do: "keyed", name: "a" },
            { do: "read", name: "b" },
          ])
        ).instanceId,
    ),
  );
  await Promise.all(ids.map((id) => reaches(id, "complete")));
  const before = (await ask("/v1/costs", ["observe"])).body.workflows.find((one: { workflow: string }) => one.workflow === "probe");
  count(probeEnv, "instances_ended_total", { workflow: "probe", status: "complete", code: "" }, 1000);
  await settleCounts(probeEnv);
  const { status, body } = await ask("/v1/costs", ["observe"]);
  expect(status).toBe(200);
  const probe = body.workflows.find((one: { workflow: string }) => one.workflow === "probe");
  expect(probe).toMatchObject({ basis: "runs", steps: { typical: expect.any(Number), most: expect.any(Number) } });
  expect(probe.runs.day - before.runs.day).toBeGreaterThanOrEqual(1000);
  expect(probe.usd_per_month).toBeCloseTo((probe.usd_per_thousand_runs / 1000) * probe.runs.day * 30, 3);
  expect(Object.values<number>(probe.usd_by).reduce((sum, usd) => sum + usd, 0)).toBeCloseTo(probe.usd_per_month, 5);
  expect(body.month.usd).toBeGreaterThanOrEqual(5);
  expect(body.fixed.d1_gb).toBeGreaterThanOrEqual(0);
  expect(JSON.stringify(body)).not.toContain("acme");
});

it("a delivery that returns to its queue costs one read operation, at the rate of the last day", async () => {
  await settleCounts(probeEnv);
  const costs = async () => (await ask("/v1/costs", ["observe"])).body;
  const before = await costs();
  count(probeEnv, "queue_messages_retried_total", { queue: "probe-commands" }, 1000);
  await settleCounts(probeEnv);
  const after = await costs();
  const more = after.fixed.queue_operations - before.fixed.queue_operations;
  // The counts are divided and multiplied, so that the sum may differ in its last digit.
  expect(more).toBeGreaterThan(29_999.99);
  // Other tests may cause a few redeliveries at the same time.
  expect(more).toBeLessThan(33_000);
  const used = ({ month }: { month: { used: { of: string; used: number }[] } }) =>
    month.used.find(({ of }) => of === "queue_operations")?.used ?? 0;
  expect(used(after) - used(before)).toBeGreaterThan(29_999.99);
});

it("the cost of a run with a corrupt cost record is estimated, and other costs are still shown", async () => {
  const { instanceId } = await start(fresh(), [{ do: "commit", name: "a" }]);
  await reaches(instanceId, "complete");
  for (const spoiled of ["[", "7", '{"1":null}', '{"1":{"steps":"many"}}']) {
    await rows("UPDATE millrace_instances SET spent = ?1 WHERE id = ?2", spoiled, instanceId);
    expect(await ask("/v1/costs", ["observe"])).toMatchObject({ status: 200 });
    const { body } = await ask(`/v1/instances/${instanceId}`, ["read"]);
    expect(body.cost.parts.steps).toMatchObject({ mark: "estimated", amount: expect.any(Number) });
  }
});

it("the cost of a workflow without runs is estimated from its code, and marked as estimated", async () => {
  const never = defineWorkflow({
    name: "never-ran",
    on: ProbeFollow,
    run: async ({ step, payload: { name } }) => {
      await step.read("look", async () => name);
      await step.sleep("a while", "1 hour");
      await step.commit("write", () => ({}));
    },
  });
  const inline = defineWorkflow({ ...never, name: "inline", steps: "inline" });
  const silent = defineWorkflow({ name: "silent", on: ProbeRequested, run: async () => undefined });
  const routesOf = (...starts: (typeof never | typeof silent)[]) =>
    engineRoutes(catalog({ consumers: [defineConsumer({ queue: probeCommands, starts })] }));
  const own = routesOf(never, silent);
  const { body } = await ask("/v1/costs", ["observe"], "acme", own);
  expect(body.workflows).toEqual([
    expect.objectContaining({ workflow: "never-ran", basis: "code", runs_seen: 0, steps: null }),
    expect.objectContaining({ workflow: "silent", basis: "nothing", per_run: {}, usd_per_month: 0 }),
  ]);
  expect(body.workflows[0].per_run).toMatchObject({ steps: 3, rows_written: 8, queue_operations: 3 });
  const { body: its } = await ask("/v1/costs", ["observe"], "acme", routesOf(inline));
  expect(its.workflows[0].per_run).toMatchObject({ steps: 2, rows_written: 8, queue_operations: 3 });
});

it("reading the costs of a deployment needs a token with the scope observe", async () => {
  expect(await ask("/v1/costs", ["read", "operate"])).toMatchObject({ status: 403, body: { code: "forbidden" } });
});

it("the estimate for pruning a run equals the rows that its deletion writes", async () => {
  const { instanceId, correlationId } = await start(fresh(), [
    { do: "commit", name: "a" },
    { do: "keyed", name: "b" },
  ]);
  const { costs } = await shownOf(await endedJob(correlationId));
  const { of } = countRows();
  const removed = () => of(/INTO millrace_tombstones|DELETE FROM millrace_(instances|inbox|waits|approvals)/);
  // First a prune removes the rows of other tests, with the runs that end in the meantime.
  for (let before = -1; removed() > before; await retentionPass()) before = removed();
  const others = removed();
  await rows("UPDATE millrace_instances SET accepted_at = 1, updated_at = 1 WHERE id = ?1", instanceId);
  await retentionPass();
  expect(await rows("SELECT 1 FROM millrace_instances WHERE id = ?1", instanceId)).toEqual([]);
  expect(removed() - others).toBe(costs[0]?.removal_rows);
  expect(await ask(`/v1/instances/${instanceId}`, ["read"])).toMatchObject({ status: 404 });
});
