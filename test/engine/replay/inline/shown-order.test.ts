import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { StepMode } from "../../../../packages/millrace/src/contract/step-names.ts";
import { operator, probeEnv, reaches } from "../../harness.ts";
import { refuse } from "../../lab.ts";
import { kept } from "../../operate/scene.ts";
import { type Code, runIn, withRecordersThatKnow } from "./running.ts";

withRecordersThatKnow();

/** The names of the steps as the API lists them, without the engine's own steps. */
async function shown(id: string): Promise<string[]> {
  const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, id));
  return steps.filter(({ own, type }) => own === null && type === "do").map(({ name }) => name);
}

const begun = async (mode: StepMode, code: Code) => (await runIn(mode, code)).instanceId;
const done = { retries: { limit: 0, delay: 10 } };

describe.each(["inline", "platform"] as const)("the list of %s steps", (mode) => {
  it("steps are listed in the order of the code after a retry that fails at the same step again", async () => {
    const id = await begun(mode, async ({ step }) => {
      await step.commit("a", () => ({}), { steps: "platform" });
      await step.commit("c", () => ({}));
      await step.read("g", refuse, done);
    });
    await reaches(id, "errored");
    await instances.act(probeEnv, operator, "retry", id, { reason: "once more" });
    await kept(id, "errored");
    expect(await shown(id)).toEqual(["a", "c", "g"]);
  });

  it("steps are listed in the order of the code after an undo and a retry, each undo step before its repeated effect", async () => {
    const id = await begun(mode, async ({ step }) => {
      for (const name of ["a", "c", "d"] as const) {
        await step.commit(name as "a", () => ({}), name === "d" ? { undo: () => ({}) } : {});
      }
    });
    await reaches(id, "complete");
    await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await instances.act(probeEnv, operator, "retry", id, { reason: "after all" });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(await shown(id)).toEqual(["undo d", "a", "c", "d"]);
  });

  it("steps are listed in the order of the code after a restart that reuses the steps around a question", async () => {
    const id = await begun(mode, async ({ step }) => {
      await step.commit("a", () => ({}));
      await step.approve("first", { question: "May it?", timeout: 1, otherwise: "approve" });
      await step.commit("b", () => ({}));
      await step.approve("second", { question: "And now?" });
    });
    const asks = async () => (await shown(id)).includes("second");
    await expect.poll(asks, { timeout: 20_000 }).toBe(true);
    await reaches(id, "waiting");
    await instances.act(probeEnv, operator, "restart", id, { reason: "does it hang?" });
    await kept(id, "waiting");
    await expect.poll(asks, { timeout: 20_000 }).toBe(true);
    expect(await shown(id)).toEqual(["a", "first", "b", "second"]);
  });
});
