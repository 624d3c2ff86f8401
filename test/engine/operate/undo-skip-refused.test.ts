import { defineStep, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { operator, probeEnv } from "../harness.ts";
import { runLab } from "../lab.ts";
import { ONCE, retry } from "./operating.ts";
import { bank, pays, standing, UNFIT } from "./paying.ts";
import { comes, kept } from "./scene.ts";
import { skip, statesOf, undoneInPart, van } from "./undo-failing.ts";

describe("W19 W20 An invalid output that an operator enters in an undo", () => {
  it("an invalid output for a cut-off effect fails the undo again, with a remedy, and leaves no record", async () => {
    const at = bank();
    const pay = { ...pays(at, "keyed"), retries: { limit: 1, delay: 1500 } };
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("van", van(at.log), null);
      await step.effect("pay", pay, null);
    });
    await comes(() => at.log.includes("pay"));
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("errored");
    const sent = at.log.length;
    for (const _ of [1, 2]) {
      await skip(id, "pay", UNFIT);
      expect(await kept(id, "terminated", "errored")).toBe("errored");
      expect((await standing(id)).error).toMatchObject({ step: "pay", message: expect.stringContaining("Skip it with a valid output.") });
      expect(await statesOf(id)).toEqual(["van 1: done"]);
    }
    expect((await instances.plan(probeEnv, operator, "retry", id, {})).effects).toEqual([
      { step: "pay", item: "", verdict: "unknown" },
      { step: "van", item: "", verdict: "undone" },
    ]);
    expect(at.log).toHaveLength(sent);
    at.away = false;
    await retry(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(at.log.slice(sent)).toEqual(["pay", "pay back", "van back"]);
  });

  it("an invalid output for an undo step is removed, and a retry runs that undo step again", async () => {
    const at = { ...bank(), away: false };
    const gone = { is: true };
    const goesBack = defineStep({
      effect: "keyed",
      ...ONCE,
      output: z.object({ id: z.string() }),
      run: async () => (gone.is ? Promise.reject(upstreamRefused("No such payment.", 404)) : { id: `${at.log.push("pay back")}` }),
    });
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("pay", { ...pays(at, "keyed"), undo: goesBack as never }, null);
    });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await undoneInPart(id);
    await skip(id, "undo pay", { output: { id: 5 } });
    expect(await kept(id, "terminated", "errored")).toBe("errored");
    expect((await standing(id)).error).toMatchObject({ step: "undo pay", message: expect.stringContaining("is not valid") });
    expect(await statesOf(id)).toEqual(["pay 1: done"]);
    gone.is = false;
    await retry(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(at.log).toEqual(["pay", "pay back"]);
  });
});
