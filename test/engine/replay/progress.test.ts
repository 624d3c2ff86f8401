import { defineStep } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { runLab } from "../lab.ts";
import { countRows } from "../observe/cost/counted.ts";

const instant = { limit: 1, delay: 10, backoff: "constant" } as const;

it("the progress of an attempt is on its instance and its step, and a new attempt begins without progress", async () => {
  const caller = await asking();
  const [failing, ending] = [Promise.withResolvers<never>(), Promise.withResolvers<string>()];
  let attempts = 0;
  const copy = defineStep<null, string>({
    effect: "natural",
    retries: instant,
    run: ({ progress }) => {
      if (++attempts > 1) return ending.promise;
      progress({ done: 40, of: 100, text: "pages" });
      return failing.promise;
    },
  });
  const id = await ask(caller, ({ step }) => step.effect("copy", copy, null, { key: "a", steps: "platform" }));
  const shown = () => caller.get(`/v1/instances/${id}`);
  const { progress } = (await until(shown, ({ body }) => body.progress !== null)).body;
  expect(progress).toEqual({ step: "copy [a]", attempt: 1, share: 0.4, done: 40, of: 100, text: "pages", at: expect.any(String) });
  const stepOf = async () => (await caller.get(`/v1/instances/${id}/steps`)).body.items[0];
  expect(await stepOf()).toMatchObject({ name: "copy [a]", state: "running", progress });
  failing.reject(new Error("The copier is out of paper."));
  const again = await until(stepOf, (step) => step.attempts.length === 2);
  expect(again).toMatchObject({ state: "running", progress: null });
  ending.resolve("copied");
  expect(await reaches(id, "complete")).toBe("complete");
});

it("of a thousand reports in one moment the first and the last are stored, and an ended run keeps the last", async () => {
  const { of } = countRows();
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("count", ({ progress }) => {
      for (let done = 1; done <= 1000; done++) progress({ done, of: 1000 });
      return {};
    });
  });
  await reaches(instanceId, "complete");
  expect(await reportsOf(instanceId)).toEqual({ count: ["count", 1, 1, 1000, 1000, null, expect.any(Number)] });
  expect(of(/SET progress = json_patch/)).toBe(2);
});

it("a report without a valid number is stored without it, and fails no step", async () => {
  const { instanceId } = await runLab(async ({ step }) => {
    await step.read("look", ({ progress }) => {
      progress({ done: Number.NaN, of: -1, share: 7, text: "x".repeat(300) });
      return null;
    });
    await step.read("ask", ({ progress }) => {
      progress(null as never);
      return null;
    });
  });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(await reportsOf(instanceId)).toEqual({
    look: ["look", 1, 1, null, null, "x".repeat(200), expect.any(Number)],
    ask: ["ask", 1, null, null, null, null, expect.any(Number)],
  });
});

it("an operator's retry begins without progress", async () => {
  let isGood = false;
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit(
      "count",
      ({ progress }) => {
        if (!isGood) progress({ share: 0.5 });
        if (!isGood) throw new Error("It stopped half-way.");
        return {};
      },
      { retries: { limit: 0, delay: 0 } },
    );
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  expect(await reportsOf(instanceId)).toMatchObject({ count: ["count", 1, 0.5, null, null, null, expect.any(Number)] });
  isGood = true;
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "fixed" });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(await reportsOf(instanceId)).toBeNull();
});

async function reportsOf(id: string): Promise<unknown> {
  const [row] = await rows<{ progress: string | null }>("SELECT progress FROM millrace_instances WHERE id = ?1", id);
  return JSON.parse(row?.progress ?? "null");
}
