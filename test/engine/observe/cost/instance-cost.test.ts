import { defineStep, notRetryable } from "millrace";
import { approvals, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { ProbeSignal } from "../../../probe/messages.ts";
import { asking } from "../../asking.ts";
import { addressOf } from "../../callbacks/heard.ts";
import { behave, deliver, event, fresh, operator, probeEnv, reaches, rows, start, withKeeperAtRest } from "../../harness.ts";
import { runLab } from "../../lab.ts";
import { countRows, endedJob, shownOf } from "./counted.ts";

type Script = Parameters<typeof start>[1];

/** Returns the shown cost of a run, and the number of rows that D1 counts for it. */
async function costOf(script: Script | ((name: string) => Script), meanwhile?: (run: { name: string; id: string }) => Promise<unknown>) {
  const name = fresh();
  const { written } = countRows();
  const { instanceId, correlationId } = await start(name, typeof script === "function" ? script(name) : script);
  await meanwhile?.({ name, id: instanceId });
  const ids = await endedJob(correlationId);
  return { ...(await shownOf(ids)), counted: written(name, correlationId, ...ids), ids };
}

describe("The shown cost of a run compared with the counts of D1 and of the platform", () => {
  const COMMIT = { do: "commit", name: "rows" } as const;
  it.each<[string, Script]>([
    ["a read", [{ do: "read", name: "a" }]],
    ["a commit with a row of the app", [COMMIT]],
    [
      "keyed and natural effects",
      [
        { do: "keyed", name: "a" },
        { do: "natural", name: "b" },
      ],
    ],
    ["effects that claim", [{ do: "lookup", name: "a" }, { do: "once", name: "b" }, COMMIT]],
    ["a sleep between two writes", [COMMIT, { do: "sleep", name: "nap", timeoutMs: 20 }, { do: "keyed", name: "b" }]],
    ["parallel branches", [[COMMIT, { do: "keyed", name: "b" }, { do: "once", name: "c" }], { do: "commit", name: "d" }]],
    ["messages and the runs that they start", [{ ...COMMIT, emit: true }]],
    ["an unanswered question", [COMMIT, { do: "approve", name: "may it", timeoutMs: 50, otherwise: "approve" }]],
  ])("the shown cost of a run with %s equals the counts of D1 and of the platform", async (_, script) => {
    const { rows: shown, counted, steps, onPlatform, marks, costs } = await costOf(script);
    expect(costs.map(({ messages, parts }) => parts.queue_operations.amount - 3 * messages)).toEqual(costs.map(() => 0));
    expect({ rows: shown, steps, marks }).toEqual({ rows: counted, steps: onPlatform, marks: ["counted"] });
  });

  it("the shown cost of a run with a caught time-out of a wait equals the counts of D1 and of the platform", async () => {
    const { written } = countRows();
    const { correlationId } = await runLab(async ({ step, payload }) => {
      await step.commit("a", () => ({}));
      await step.waitFor("w", ProbeSignal, { subject: payload.name, timeout: 50 }).catch(() => undefined);
      await step.commit("b", () => ({}));
    });
    const ids = await endedJob(correlationId);
    const shown = await shownOf(ids);
    expect([shown.rows, shown.steps, shown.marks]).toEqual([written(correlationId, ...ids), shown.onPlatform, ["counted"]]);
  });

  it("the shown cost of a run with a caught failure and its fallback equals the counts of D1 and of the platform", async () => {
    const { written } = countRows();
    const does = defineStep({ effect: "keyed", run: async ({ key }) => key });
    const { correlationId } = await runLab(async ({ step }) => {
      await step.read("card", () => Promise.reject(notRetryable("No funds."))).catch(() => undefined);
      await step.effect("invoice", does, null);
      await step.effect("letter", does, null);
    });
    const ids = await endedJob(correlationId);
    const shown = await shownOf(ids);
    expect([shown.rows, shown.steps, shown.marks]).toEqual([written(correlationId, ...ids), shown.onPlatform, ["counted"]]);
  });

  it("the shown cost of a run with a callback address includes the separate instance that calls it", async () => {
    const { url, heard } = await addressOf(await asking(["tokens"], operator.tenantId));
    const { written } = countRows();
    const name = fresh();
    const { correlationId } = await start(name, [COMMIT], { mustEndBy: "2 hours", callbackUrl: url });
    await heard(1);
    const ids = await endedJob(correlationId);
    const shown = await shownOf(ids);
    expect(ids).toHaveLength(2);
    expect([shown.rows, shown.steps, shown.marks]).toEqual([written(name, correlationId, ...ids), shown.onPlatform, ["counted"]]);
  });

  it("the shown cost of a run with a wait equals the counts of D1 and of the platform", async () => {
    const script = (name: string): Script => [COMMIT, { do: "wait", name: "w", subject: name }, { do: "keyed", name: "b" }];
    const cost = await costOf(script, async ({ name, id }) => {
      await reaches(id, "waiting");
      await deliver("probe-events", [event("probe.signal", name, { about: name, value: "x" })]);
    });
    expect([cost.rows, cost.steps, cost.marks]).toEqual([cost.counted, cost.onPlatform, ["counted"]]);
  });

  it("the shown cost of a run with a question equals the counts of D1 and of the platform", async () => {
    const cost = await costOf(
      [COMMIT, { do: "approve", name: "may it", timeoutMs: 60_000 }, { do: "keyed", name: "b" }],
      async ({ id }) => {
        await reaches(id, "waiting");
        const [asked] = await rows<{ id: string }>("SELECT id FROM millrace_approvals WHERE instance_id = ?1", id);
        await approvals.get(probeEnv, operator, asked?.id ?? "");
        await approvals.decide(probeEnv, operator, asked?.id ?? "", "approve", "gladly");
      },
    );
    expect([cost.rows, cost.steps, cost.marks]).toEqual([cost.counted, cost.onPlatform, ["counted"]]);
  });

  it.each(["keyed", "lookup"] as const)("a retried %s step is billed as one step", async (kind) => {
    const name = fresh();
    await behave({ subject: name, mode: "refuse", status: 503, times: 2 });
    const cost = await costOf([{ do: kind, name: "a", subject: name }]);
    expect([cost.rows, cost.steps]).toEqual([cost.counted, 1]);
  });
});

describe("The shown cost of a run with estimated parts", () => {
  it("the cost of a message that its queue delivers three times includes one read and one written row for each redelivery", async () => {
    await withKeeperAtRest();
    // The formula is for a deployment without a pause; other tests leave ended pauses.
    await rows("DELETE FROM millrace_pauses RETURNING id");
    const { written, read } = countRows();
    const name = fresh();
    const { instanceId, correlationId } = await start(name, [{ do: "commit", name: "a" }]);
    const ids = await endedJob(correlationId);
    const [first] = (await shownOf(ids)).costs;
    const [row] = await rows<{ envelope: string }>("SELECT envelope FROM millrace_instances WHERE id = ?1", instanceId);
    const before = written(name, correlationId, ...ids);
    const reads: number[] = [];
    for (const attempt of [2, 3]) {
      const readAlready = read();
      await deliver("probe-commands", [JSON.parse(row?.envelope ?? "")], attempt);
      reads.push(read() - readAlready);
    }
    const shown = await shownOf(ids);
    const [third] = shown.costs;
    expect(written(name, correlationId, ...ids) - before).toBe(2);
    expect([shown.rows, shown.steps]).toEqual([written(name, correlationId, ...ids), shown.onPlatform]);
    const more = (part: "rows_written" | "queue_operations" | "requests") =>
      (third?.parts[part].amount ?? 0) - (first?.parts[part].amount ?? 0);
    expect({ rows: more("rows_written"), operations: more("queue_operations"), requests: more("requests") }).toEqual({
      ...{ rows: 2, operations: 2, requests: 2 },
    });
    expect([third?.messages, third?.parts.queue_operations.mark]).toEqual([1, "estimated"]);
    // Unfinished runs of other tests may read rows at the same time.
    expect(2 * Math.min(...reads)).toBe((third?.parts.rows_read.amount ?? 0) - (first?.parts.rows_read.amount ?? 0));
  });

  it("the cost of a run that failed and was retried by an operator counts the failed step twice, and is marked as estimated", async () => {
    const subject = fresh();
    await behave({ subject, mode: "refuse", status: 400, times: 1 });
    const script: Script = [
      { do: "commit", name: "a" },
      { do: "keyed", name: "b", subject, retries: 0 },
      { do: "commit", name: "c" },
    ];
    const cost = await costOf(script, async ({ id }) => {
      await reaches(id, "errored");
      await instances.act(probeEnv, operator, "retry", id, { reason: "repaired" });
      await reaches(id, "complete");
    });
    // The keeper may have checked the run in the meantime.
    expect(Math.abs(cost.rows - cost.counted)).toBeLessThanOrEqual(1);
    expect([cost.steps, cost.marks]).toEqual([4, ["estimated"]]);
  });

  it("the cost of an undone run includes its undo, and is marked as estimated because the undo is a separate instance", async () => {
    const cost = await costOf([{ do: "commit", name: "a", undo: "rows" }], async ({ id }) => {
      await reaches(id, "complete");
      await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
      await reaches(id, "terminated");
    });
    expect([cost.rows, cost.steps, cost.marks]).toEqual([cost.counted, 2, ["estimated"]]);
  });

  it("the cost of a run with an unknown outcome is marked as estimated, because the run has not ended", async () => {
    const subject = fresh();
    await behave({ subject, mode: "drop", times: 1 });
    const cost = await costOf([{ do: "once", name: "a", subject, timeoutMs: 200 }]);
    expect([cost.rows, cost.marks]).toEqual([cost.counted, ["estimated"]]);
  });
});

it("the cost of a run in dollars is the sum of its parts, most of which are counted and not estimated", async () => {
  const { costs } = await costOf([
    { do: "keyed", name: "a" },
    { do: "keyed", name: "b" },
    { do: "commit", name: "c" },
  ]);
  const [cost] = costs;
  expect(cost?.messages).toBe(1);
  expect(cost?.parts.steps).toEqual({ amount: 3, mark: "counted", usd: 24e-6 });
  expect(cost?.usd).toBeCloseTo(
    Object.values(cost?.parts ?? {}).reduce((sum, { usd }) => sum + usd, 0),
    12,
  );
  expect((cost?.usd_counted ?? 0) / (cost?.usd ?? 1)).toBeGreaterThan(0.85);
});
