import { notRetryable } from "millrace";
import { approvals, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { deliver, operator, probeEnv, reaches, statusOf, until } from "../harness.ts";
import { platformReaches, runLab } from "../lab.ts";
import { hear, openWaits, say } from "./waiting.ts";

/** Waits until the platform's timer for a wait of the run has fired. */
const timeWasUp = (id: string) =>
  until(
    async () => (await instances.history(probeEnv, { id, workflow: "lab" })).steps.map(({ name }) => name),
    (names) => names.some((name) => name.includes("time is over")),
  );

it.concurrent.each(["a wait", "a question"])(
  "W26 the timeout of %s runs from its first request, also across retries of other branches",
  async (what) => {
    const timeout = 4000;
    let broken = true;
    let began = 0;
    let over = 0;
    const { instanceId } = await runLab(async ({ step, payload }) => {
      began ||= Date.now();
      const parked = () =>
        what === "a wait" ? hear(step, "parked", payload.name, timeout) : step.approve("parked", { question: "May it?", timeout });
      const failing = async () => {
        await step.read("a while", () => scheduler.wait(2500));
        await step.commit("fails", () => (broken ? Promise.reject(notRetryable("Broken.")) : {}), { retries: { limit: 0, delay: 10 } });
      };
      await Promise.all([parked().then(() => (over ||= Date.now())), failing()]);
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    broken = false;
    const retriedAt = Date.now();
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    // A timeout that started again would end 4 s after the retry.
    expect(over - retriedAt).toBeLessThan(timeout - 500);
    expect(over - began).toBeGreaterThan(timeout - 500);
  },
);

describe("A platform timer that fires early by the database's clock", () => {
  it.concurrent("W26 a question remains open and accepts an answer when its platform timer fires early by the database's clock", async () => {
    const answers: unknown[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      answers.push(await step.approve("ask", { question: "May it?", timeout: 300 }));
    });
    const [question] = await until(
      async () => (await approvals.list(probeEnv, operator, { instance: instanceId })).items,
      (items) => items.length === 1,
    );
    // In the database one hour remains when the platform's timer fires.
    await probeEnv.DB.prepare("UPDATE millrace_approvals SET due_at = due_at + 3600000 WHERE instance_id = ?1").bind(instanceId).run();
    await timeWasUp(instanceId);
    expect(await statusOf(instanceId)).toBe("waiting");
    await approvals.decide(probeEnv, operator, question?.id ?? "", "approve", "yes");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(answers).toEqual([{ approved: true, by: "tess", reason: "yes" }]);
  });

  it.concurrent("W26 a wait remains open and accepts its event when its platform timer fires early by the database's clock", async () => {
    const heard: string[] = [];
    const { instanceId, name } = await runLab(async ({ step, payload }) => void heard.push(await hear(step, "answer", payload.name, 300)));
    await openWaits(instanceId, 1);
    await probeEnv.DB.prepare("UPDATE millrace_waits SET since_at = since_at + 3600000 WHERE instance_id = ?1").bind(instanceId).run();
    await timeWasUp(instanceId);
    await deliver("probe-events", [say(name, "yes")]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard).toEqual(["yes"]);
  });
});
