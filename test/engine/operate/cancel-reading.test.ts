import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { keeperRound, operator, probeEnv } from "../harness.ts";
import { held } from "../lab.ts";
import { ended } from "./operating.ts";
import { comes, kept, play, type Scene, scene } from "./scene.ts";

const cancel = (id: string, more: { undo?: boolean } = {}) =>
  instances.act(probeEnv, operator, "cancel", id, { reason: "called off", ...more });
const LASTING = { retries: { limit: 5, delay: "1 hour" }, timeout: "10 minutes" } as const;

/** A run with one effect, followed by a read of a price that gets an error or no answer at every attempt. */
async function reading(how: "fails" | "hangs"): Promise<{ its: Scene; id: string; asked: () => number }> {
  const its = scene();
  let [asked, passes] = [0, 0];
  const id = await play(its, async (step) => {
    const isFirst = ++passes === 1;
    await its.act(step, "a");
    const ask = async () => {
      asked++;
      return how === "hangs" && isFirst ? held(() => its.state.go) : Promise.reject(new Error("No price."));
    };
    await step.read("quote", ask, LASTING);
    await its.act(step, "b");
  });
  await comes(() => asked === 1);
  return { its, id, asked: () => asked };
}

it.each(["fails", "hangs"] as const)(
  "a cancel during a read that %s ends the run at once, does not repeat the read, and undoes the effects",
  async (how) => {
    const { its, id, asked } = await reading(how);
    expect((await instances.plan(probeEnv, operator, "cancel", id, {})).effects).toEqual([{ step: "a", item: "", verdict: "undone" }]);
    const since = Date.now();
    await cancel(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    // Without the cancel, the replay would wait for the hanging read until its timeout, or for 30 seconds locally.
    expect(Date.now() - since).toBeLessThan(15_000);
    expect(its.log).toEqual(["a", "undo a(its a)"]);
    expect(asked()).toBe(1);
    its.state.go = true;
  },
);

it.each(["fails", "hangs"] as const)(
  "a cancel without undo during a read that %s ends the run at once, and leaves no effect with an unknown outcome",
  async (how) => {
    const { its, id, asked } = await reading(how);
    await cancel(id, { undo: false });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await comes(async () => {
      await keeperRound();
      return (await instances.get(probeEnv, operator, id)).status === "terminated";
    });
    expect(await instances.plan(probeEnv, operator, "undo", id, {})).toMatchObject({
      refused: null,
      effects: [{ step: "a", item: "", verdict: "undone" }],
    });
    await instances.act(probeEnv, operator, "undo", id, { reason: "all of it" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await comes(() => its.log.length === 2);
    expect([its.log, asked()]).toEqual([["a", "undo a(its a)"], 1]);
    its.state.go = true;
  },
);

it("a restart does not wait for a read that hangs", async () => {
  const its = scene();
  let passes = 0;
  const id = await play(its, async (step) => {
    const own = ++passes;
    await step.read("quote", async () => (own > 1 ? 1 : held(() => its.state.go)), LASTING);
    await its.act(step, "b");
  });
  await comes(() => passes === 1);
  await scheduler.wait(1200);
  await instances.act(probeEnv, operator, "restart", id, { reason: "it hangs" });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect([its.log, passes]).toEqual([["b"], 2]);
  its.state.go = true;
});

it("an undo repeats no read that follows the last completed effect, also where the code polls for a condition", async () => {
  const its = scene();
  let asked = 0;
  const id = await play(its, async (step) => {
    await its.act(step, "a");
    for (let round = 0; ; round++) {
      const isReady = await step.read("ready", async () => ++asked < 0, { key: String(round) }).catch(() => false);
      if (isReady) return;
      await step.sleep("pause", round === 0 ? 20 : "1 hour", { key: String(round) });
    }
  });
  await comes(() => asked === 2);
  await cancel(id);
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  expect([its.log, asked]).toEqual([["a", "undo a(its a)"], 2]);
});

it("an undo repeats the reads that precede a completed effect, so that the code takes the same branch", async () => {
  const its = scene();
  let asked = 0;
  const id = await play(its, async (step) => {
    if ((await step.read("which", async () => ++asked)) > 0) await its.act(step, "a");
    await step.read("last", async () => ++asked);
  });
  expect(await ended(id)).toBe("complete");
  await instances.act(probeEnv, operator, "undo", id, { reason: "all of it" });
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  expect([its.log, asked]).toEqual([["a", "undo a(its a)"], 3]);
});
