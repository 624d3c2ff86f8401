import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { operator, probeEnv } from "../harness.ts";
import { carriedOut, losing, refusing } from "./cutting-off.ts";
import { comes, kept, play, scene } from "./scene.ts";

describe("W20 An undo of a run that was cancelled without undo", () => {
  it("an operator can undo a cancelled run later, also an effect whose first answer was lost", async () => {
    const its = scene();
    const { state, next } = refusing();
    const step = losing(its.log, next);
    const id = await play(its, async (steps) => {
      await its.act(steps, "a");
      await steps.effect("b", step, {});
    });
    await comes(() => state.refused);
    await instances.act(probeEnv, operator, "cancel", id, { reason: "stop", undo: false });
    await carriedOut(id);
    await instances.act(probeEnv, operator, "undo", id, { reason: "all of it" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await comes(() => its.log.includes("undo a(its a)"));
    expect(its.log).toEqual(["a", "done", "undo it", "undo a(its a)"]);
  });

  it("an undo after a cancel without undo undoes the only possible effect, and its dry run names that effect", async () => {
    const its = scene();
    const { state, next } = refusing();
    const step = losing(its.log, next);
    const id = await play(its, (steps) => steps.effect("b", step, {}));
    await comes(() => state.refused);
    await instances.act(probeEnv, operator, "cancel", id, { reason: "stop", undo: false });
    await carriedOut(id);
    expect(await instances.plan(probeEnv, operator, "undo", id, {})).toMatchObject({
      refused: null,
      effects: [{ step: "b", item: "", verdict: "unknown" }],
    });
    await instances.act(probeEnv, operator, "undo", id, { reason: "all of it" });
    await carriedOut(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["done", "undo it"]);
  });

  it.each(["an undo", "a later run"] as const)(
    "an undo is refused, with the reason, when %s has settled the only possible effect in the meantime",
    async (how) => {
      const its = scene();
      const { state, next } = refusing();
      const { undo, ...stays } = losing(its.log, next);
      const step = how === "an undo" ? { ...stays, undo } : stays;
      let isWanted = true;
      const id = await play(its, async (steps) => {
        if (isWanted) await steps.effect("b", step as typeof stays, {});
        await steps.sleep("rest", "1 hour");
      });
      await comes(() => state.refused);
      await instances.act(probeEnv, operator, "cancel", id, { reason: "called off", undo: how === "an undo" });
      await carriedOut(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      isWanted = how === "a later run";
      await instances.act(probeEnv, operator, "retry", id, { reason: "once more" });
      const isAsleep = async () =>
        (await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, id))).steps.some(
          (one) => one.state === "sleeping",
        );
      await comes(isAsleep);
      await instances.act(probeEnv, operator, "cancel", id, { reason: "stop", undo: false });
      await carriedOut(id);
      expect(await instances.plan(probeEnv, operator, "undo", id, {})).toMatchObject({
        refused: expect.stringContaining("no recorded effect that can be undone"),
        effects: how === "an undo" ? [{ step: "b", item: "", verdict: "nothing" }] : [{ step: "b", item: "", verdict: "stays" }],
      });
      await expect(instances.act(probeEnv, operator, "undo", id, { reason: "all of it" })).rejects.toMatchObject({
        code: "invalid_transition",
        message: expect.stringContaining("no recorded effect that can be undone"),
      });
      expect(its.log).toEqual(how === "an undo" ? ["done", "undo it"] : ["done"]);
    },
  );
});
