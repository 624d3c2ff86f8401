import { defineStep } from "millrace";
import { instances } from "millrace/operate";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import type { End } from "../../../packages/millrace/src/store/instances/run.ts";
import { deliver, envelopeOf, fresh, keeperRound, operator, probeEnv, reaches, rows, start, statusOf, until } from "../harness.ts";
import { errorOf, failsUntilMended, held, LAB, platformReaches, runLab } from "../lab.ts";

// The first run of a process is never treated as new.
beforeAll(async () => {
  const { instanceId } = await start(fresh(), [{ do: "read", name: "first" }]);
  await reaches(instanceId, "complete");
});

/** Reports the end of a run to its recorder, as a replay does. */
async function say(end: Pick<End, "id" | "run" | "status">): Promise<void> {
  const error = end.status === "errored" ? JSON.stringify({ step: "a", code: "step_failed", message: "told late", attempts: 1 }) : null;
  await recorderOf(probeEnv, end.id).finish({ ...end, error });
  // The recorder answers before it commits. It commits in order, so this query returns after the commit.
  await recorderOf(probeEnv, end.id).standing(end.id);
}

const run = async (id: string) => (await rows<{ run: number }>("SELECT run FROM millrace_instances WHERE id = ?1", id))[0]?.run;

describe("The recorded end of a run", () => {
  it("W33 a failed run's late report of its end changes nothing once an operator has retried the run", async () => {
    const { instanceId, state } = await failsUntilMended();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    state.broken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await run(instanceId)).toBe(2);
    await until(
      () => rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND state = 'done'", instanceId),
      (done) => done.length === 1,
    );
    await say({ id: instanceId, run: 1, status: "errored" });
    expect(await statusOf(instanceId)).toBe("running");
    state.go = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("I13 W33 a recorded end of a run is not replaced, except a failure by a success of the same run", async () => {
    const done = await start(fresh(), [{ do: "commit", name: "c" }]);
    expect(await reaches(done.instanceId, "complete")).toBe("complete");
    await say({ id: done.instanceId, run: 1, status: "errored" });
    await say({ id: done.instanceId, run: 1, status: "terminated" });
    expect(await statusOf(done.instanceId)).toBe("complete");

    const { instanceId } = await failsUntilMended();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await say({ id: instanceId, run: 1, status: "errored" });
    expect((await errorOf(instanceId))?.message).toBe("no");
    await say({ id: instanceId, run: 2, status: "complete" });
    expect(await statusOf(instanceId)).toBe("errored");
    await say({ id: instanceId, run: 1, status: "complete" });
    expect(await statusOf(instanceId)).toBe("complete");
    expect(await errorOf(instanceId)).toBe(null);
  });

  it("W33 a failure is recorded, although an overtaken replay reports a success at the same time", async () => {
    const { instanceId: id, state } = await failsUntilMended();
    state.broken = false;
    const written = () => rows<{ token: string }>("SELECT token FROM millrace_inbox WHERE instance_id = ?1 AND state = 'done'", id);
    const [entry] = await until(written, (done) => done.length === 1);
    const recorder = recorderOf(probeEnv, id);
    const end = { id, run: 1, error: null, readAt: 0 };
    // The first query makes the two reports wait for the same batch.
    const [, ...answers] = await Promise.all([
      recorder.standing(id),
      recorder.finish({ ...end, status: "complete", replay: "overtaken" }, true),
      recorder.finish({ ...end, status: "errored", error: "{}", replay: entry?.token.slice(0, 8) ?? "" }, true),
    ]);
    state.go = true;
    expect([answers, await statusOf(id)]).toEqual([[false, true], "errored"]);
  });

  it("I17 the keeper corrects an errored row to running while the run continues on the platform", async () => {
    const { instanceId, state } = await failsUntilMended();
    state.broken = false;
    await reaches(instanceId, "running");
    await say({ id: instanceId, run: 1, status: "errored" });
    expect(await statusOf(instanceId)).toBe("errored");
    await keeperRound();
    expect(await statusOf(instanceId)).toBe("running");
    state.go = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("I17 the keeper checks an errored run once more, and then no more", async () => {
    const { instanceId } = await failsUntilMended();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    const look = async () =>
      (await rows<{ at: number | null }>("SELECT check_at AS at FROM millrace_instances WHERE id = ?1", instanceId))[0]?.at;
    expect(await look()).toBeGreaterThan(Date.now());
    await keeperRound();
    expect([await statusOf(instanceId), await look()]).toEqual(["errored", null]);
  });

  it.each(["its next step", "its end"])("W33 the status dead of a command with an exhausted message is corrected by %s", async (by) => {
    const state = { go: false };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.read("slow first step", async () => held(() => state.go));
      if (by === "its next step") await step.commit("effect", () => ({}));
    });
    await platformReaches(instanceId, "running");
    await deliver("probe-commands-dlq", [await envelopeOf(instanceId)]);
    state.go = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it.each(["answered", "requested again, because its answer was lost"])(
    "W33 the status dead of a command is corrected by the first outcome of its first replay, which is %s",
    async (how) => {
      const state = { go: false, goesOn: false, over: false };
      const { instanceId } = await runLab(async ({ step }) => {
        await step.read("slow first step", async () => held(() => state.go));
        await step.commit("effect", () => ({}));
        state.goesOn = true;
        await step.read("slow last step", async () => held(() => state.over));
      });
      await platformReaches(instanceId, "running");
      // The message was exhausted while the platform started the instance.
      await probeEnv.DB.prepare("UPDATE millrace_instances SET status = 'dead' WHERE id = ?1").bind(instanceId).run();
      const lost = how === "answered" ? undefined : losesAnswerTo(instanceId);
      state.go = true;
      await until(async () => state.goesOn, Boolean);
      // The status must change at once, because the keeper would correct it later.
      expect(await statusOf(instanceId)).toBe("running");
      expect(lost?.()).not.toBe(false);
      state.over = true;
      expect(await reaches(instanceId, "complete")).toBe("complete");
    },
  );
});

/** Lets the database commit the instance's next outcome and loses the answer. Returns whether that has happened. */
function losesAnswerTo(instanceId: string): () => boolean {
  let isLost = false;
  const prototype = Object.getPrototypeOf(probeEnv.DB) as D1Database;
  const batch = prototype.batch;
  const spied = vi.spyOn(prototype, "batch").mockImplementation(async function (this: D1Database, statements) {
    const answer = await batch.call(this, statements);
    const isIt = (statements as unknown as { statement: string; params: unknown[] }[]).some(
      ({ statement, params }) => statement.includes("INTO millrace_inbox") && JSON.stringify(params).includes(instanceId),
    );
    if (!isIt || isLost) return answer as never;
    isLost = true;
    throw new Error("Network connection lost.");
  });
  onTestFinished(() => spied.mockRestore());
  return () => isLost;
}

it("I17 a run that the platform restarts long after its failure shows its current status", async () => {
  const state = { broken: true };
  const { instanceId } = await runLab(async ({ step }) => {
    await step.read("check", async () => (state.broken ? Promise.reject(new Error("Broken.")) : 1), { retries: { limit: 0, delay: 10 } });
    await step.effect(
      "mail",
      defineStep({ effect: "once", retries: { limit: 0, delay: 10 }, run: async () => Promise.reject(new Error("Lost.")) }),
      {},
    );
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await platformReaches(instanceId, "errored");
  await probeEnv.DB.prepare("UPDATE millrace_instances SET check_at = NULL WHERE id = ?1").bind(instanceId).run();
  state.broken = false;
  await (await LAB.get(instanceId)).restart();
  expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
  expect(await errorOf(instanceId)).toBeNull();
});
