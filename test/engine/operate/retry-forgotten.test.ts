import { defineWorkflow, sql } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { startInstances } from "../../../packages/millrace/src/recorder/start.ts";
import { lab } from "../../probe/lab.ts";
import { envelopeOf, fresh, operator, probeEnv, reaches, rows } from "../harness.ts";
import { LAB, platformReaches, refuse, runLab } from "../lab.ts";

describe("A run with a history that the platform has deleted after its retention", () => {
  /** A failed run that has read, committed and slept before. */
  async function failed() {
    const name = fresh("lab");
    const state = { broken: true, reads: 0 };
    const { instanceId } = await runLab(
      async ({ step }) => {
        const read = await step.read("look", async () => ++state.reads);
        await step.commit("first", () => ({
          statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${fresh()}, 'first', ${name})`],
        }));
        await step.sleep("rest", 300);
        await step.commit("second", () => (state.broken ? refuse() : {}), { retries: { limit: 0, delay: 10 } });
        return read;
      },
      { name },
    );
    await platformReaches(instanceId, "errored");
    await reaches(instanceId, "errored");
    state.broken = false;
    return { instanceId, name, state };
  }

  const FORGOTTEN =
    /^The platform has removed the history of the run: the run starts from the beginning\. .*Reads are repeated.*Sleeps are repeated/;

  it("a retry of a run that the platform has deleted starts from the beginning, and names the repeated steps", async () => {
    const { instanceId, name, state } = await failed();
    expect(await instances.plan(probeEnv, operator, "retry", instanceId, {})).toMatchObject({
      from: "second",
      consequence: expect.stringMatching(/^The run starts from second/),
    });
    await (await LAB.get(instanceId)).delete();
    expect(await instances.plan(probeEnv, operator, "retry", instanceId, {})).toMatchObject({
      from: null,
      consequence: expect.stringMatching(FORGOTTEN),
    });
    const done = await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(done).toMatchObject({ from: null, consequence: expect.stringMatching(FORGOTTEN) });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(state.reads).toBe(2);
    const { steps } = await instances.history(probeEnv, { id: instanceId, workflow: "lab" });
    expect(steps.filter(({ type }) => type === "sleep")).toMatchObject([{ name: "rest", state: "complete" }]);
    expect(await rows("SELECT kind FROM probe_rows WHERE name = ?1", name)).toEqual([{ kind: "first" }]);
    const [audited] = await rows("SELECT detail->>'from' AS started FROM millrace_actions WHERE id = ?1", done.action_id);
    expect(audited).toEqual({ started: null });
  });

  it("a dry run of a retry recognizes by the run's age that the platform has deleted it, without a call to the platform", async () => {
    const { instanceId } = await failed();
    const day = 86_400_000;
    const failedAgo = async (days: number) => {
      await probeEnv.DB.prepare("UPDATE millrace_instances SET updated_at = ?2 WHERE id = ?1")
        .bind(instanceId, Date.now() - days * day)
        .run();
      const get = vi.spyOn(Object.getPrototypeOf(LAB) as Workflow, "get");
      onTestFinished(() => get.mockRestore());
      const { from } = await instances.plan(probeEnv, operator, "retry", instanceId, {});
      const asked = get.mock.calls.filter(([id]) => id === instanceId).length;
      get.mockRestore();
      return { from, asked };
    };
    expect(await failedAgo(29)).toMatchObject({ from: "second" });
    expect(await failedAgo(31)).toEqual({ from: null, asked: 0 });
  });

  it("the platform keeps a failed run for 30 days, and a complete run for its workflow's keepResult (default: two days)", async () => {
    const asked: unknown[] = [];
    const create = async ({ instances }: { instances: WorkflowInstanceCreateOptions[] }) => {
      asked.push(...instances.map(({ retention }) => retention));
      return { created: [], errors: [] };
    };
    const { name: workflow } = defineWorkflow({ name: "keeps-results", on: lab.on, keepResult: "2 weeks", run: async () => null });
    const envelope = await envelopeOf((await failed()).instanceId);
    const env = { ...probeEnv, LAB: { createBatch: create }, KEEPS_RESULTS: { createBatch: create } } as unknown as typeof probeEnv;
    await startInstances(
      env,
      ["lab", workflow].map((one) => ({ id: fresh(), workflow: one, envelope })),
      "first",
    );
    expect(asked).toEqual([
      { successRetention: 2 * 86_400_000, errorRetention: "30 days" },
      { successRetention: 14 * 86_400_000, errorRetention: "30 days" },
    ]);
  });

  it.each(["59 minutes", "31 days"] as const)("a workflow definition with an invalid keepResult is refused: %s", (keepResult) => {
    expect(() => defineWorkflow({ name: "keeps-results", on: lab.on, keepResult, run: async () => null })).toThrow(
      `keepResult of "keeps-results" must be 1 hour to 30 days, not ${keepResult}.`,
    );
  });
});
