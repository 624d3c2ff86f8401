import { type Steps, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { mode } from "../../probe/mode.ts";
import { operator, probeEnv, reaches } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { back, effect, ended, ONCE, undo } from "./operating.ts";

const modes = ["platform", "inline"] as const;

/** Runs `code` in this step mode until the run has ended. */
async function run(steps: (typeof modes)[number], code: (step: Steps) => Promise<unknown>) {
  mode.steps = steps;
  onTestFinished(() => {
    mode.steps = "platform";
  });
  const { instanceId } = await runLab(({ step }) => code(step));
  return { id: instanceId, status: await ended(instanceId) };
}

const plan = (id: string) => instances.plan(probeEnv, operator, "undo", id, {});
const of = (step: string, verdict: string) => ({ step, item: "", verdict });

const wayBack = { undo: back(async () => "back") };
/** An effect that happens, although its upstream answers that it did not. */
const charge = effect("keyed", () => Promise.reject(new Error("The till answered 500.")));
const refused = effect("keyed", () => Promise.reject(upstreamRefused("The till has closed.")), wayBack);
const van = effect("keyed", async () => "a van", wayBack);

it.each(modes)("an undo reports that an unrecorded effect with a caught failure may remain (step mode %s)", async (steps) => {
  const { id, status } = await run(steps, async (step) => {
    await step.effect("van", van, {});
    await step.effect("charge", charge, {}).catch(() => "without");
    return "done";
  });
  expect(status).toBe("complete");
  expect(await plan(id)).toMatchObject({ refused: null, effects: [of("charge", "unknown"), of("van", "undone")] });
  await undo(id);
  expect(await reaches(id, "terminated", "errored")).toBe("terminated");
  expect((await plan(id)).effects).toEqual([of("charge", "unknown")]);
});

it.each(modes)(
  "a dry run of an undo omits failed reads and commits, and reports a refused effect as not happened (step mode %s)",
  async (steps) => {
    const { id, status } = await run(steps, async (step) => {
      await step.read("quote", () => Promise.reject(new Error("No price.")), ONCE).catch(() => 0);
      await step.effect("refused", refused, {}).catch(() => "without");
      await step.commit("row", () => Promise.reject(new Error("No row.")), ONCE).catch(() => "without");
      await step.effect("charge", charge, {}).catch(() => "without");
      await step.effect("van", van, {});
      throw new Error("The code has failed.");
    });
    expect(status).toBe("errored");
    const { effects } = await plan(id);
    expect(effects.toSorted((one, other) => one.step.localeCompare(other.step))).toEqual([
      of("charge", "unknown"),
      of("refused", "nothing"),
      of("van", "undone"),
    ]);
  },
);

it.each(modes)(
  "an undo of a run without recorded effects is refused, and names the effect that may have happened (step mode %s)",
  async (steps) => {
    const { id, status } = await run(steps, (step) => step.effect("charge", charge, {}));
    expect(status).toBe("errored");
    expect(await plan(id)).toMatchObject({
      refused: expect.stringMatching(
        /no recorded effect.*These effects have no record and may have happened: "charge"\. Check the upstream/,
      ),
      effects: [of("charge", "unknown")],
    });
    await expect(undo(id)).rejects.toMatchObject({ message: expect.stringContaining('may have happened: "charge"') });
  },
);

it("a dry run of an undo of a run that failed at a read lists no possible effect", async () => {
  const { id } = await run("platform", (step) => step.read("quote", () => Promise.reject(new Error("No price.")), ONCE));
  expect(await errorOf(id)).toMatchObject({ step: "quote" });
  expect(await plan(id)).toMatchObject({ refused: "The instance has no recorded effect that can be undone.", effects: [] });
});
