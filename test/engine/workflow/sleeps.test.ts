import { notRetryable } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { operator, probeEnv, reaches } from "../harness.ts";
import { errorOf, platformReaches, runLab } from "../lab.ts";

it.each([-47_632, Number.NaN, Number.NEGATIVE_INFINITY])(
  "a sleep of %d ms that has not begun is refused, and the error names the rule",
  async (ms) => {
    const { instanceId } = await runLab(({ step }) => step.sleep("until due", ms));
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({
      step: "until due",
      code: "config_invalid",
      message: expect.stringMatching(/^"until due" has a duration of \S+ ms\. Do not compute a duration from the clock/),
    });
  },
);

it("a retry reuses a completed sleep, although its duration is computed from the clock and is negative by then", async () => {
  const dueAt = Date.now() + 1000;
  const durations: number[] = [];
  let isBroken = true;
  const { instanceId } = await runLab(async ({ step }) => {
    const ms = dueAt - Date.now();
    durations.push(ms);
    await step.sleep("until due", ms);
    return step.read("ask", async () => (isBroken ? Promise.reject(notRetryable("Broken.")) : "asked"));
  });
  expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
  await platformReaches(instanceId, "errored");
  expect(await errorOf(instanceId)).toMatchObject({ step: "ask", message: "Broken." });
  isBroken = false;
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "repaired" });
  expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  expect(durations.at(-1)).toBeLessThan(0);
});
