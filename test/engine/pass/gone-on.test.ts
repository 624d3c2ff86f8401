import { defineStep, type Steps } from "millrace";
import type { CrashPoint } from "millrace/testing";
import { describe, expect, it } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { expireLeases, fresh, pauseAt, until } from "../harness.ts";
import { held, LAB, outputOf, runLab } from "../lab.ts";
import { back, effect, ended, failed, ONCE, retry, stateOf, undo } from "../operate/operating.ts";
import { down, noFunds, shop } from "./shop.ts";

/** Runs code until an effect of it has happened and is not recorded; then the process dies, and the platform has no record. */
async function diesBehindEffect(code: (call: LabCall) => Promise<unknown>, at: CrashPoint = "W03 effect done, not recorded") {
  const name = fresh("gone");
  const dies = (point: CrashPoint) => {
    const died = pauseAt(point, name);
    return () => until(async () => died.reached(), Boolean);
  };
  const hasDied = dies(at);
  const { instanceId } = await runLab(code, { name });
  await hasDied();
  return { instanceId, dies, passedAnew: async () => (await LAB.get(instanceId)).restart() };
}

describe("A caught failure, after which the next effect happened and its process died before the record", () => {
  it.each([
    ["keyed", noFunds],
    ["natural", noFunds],
    ["keyed", down],
    ["natural", down],
  ] as const)("W25 W03 remains caught: the next replay records the effect (%s), and nothing else happens", async (of, error) => {
    const { asked, card, act } = shop({ error });
    const { instanceId, passedAnew } = await diesBehindEffect(({ step }) =>
      step.effect("card", card, null).catch(() => step.effect("invoice", act("invoice", of), null)),
    );
    await passedAnew();
    expect(await outputOf(instanceId)).toBe("invoice");
    expect(asked).toEqual(["card", "invoice", "invoice"]);
    expect(await stateOf(instanceId, "invoice")).toBe("done");
  });

  it("W25 W03 remains caught when the code only read and slept before that effect", async () => {
    const { asked, card, act } = shop();
    const { instanceId, passedAnew } = await diesBehindEffect(async ({ step }) => {
      try {
        return await step.effect("card", card, null);
      } catch {
        await step.read("address", async () => "here");
        await step.sleep("a moment", 20);
        return step.effect("invoice", act("invoice"), null);
      }
    });
    await passedAnew();
    expect(await outputOf(instanceId)).toBe("invoice");
    expect(asked).toEqual(["card", "invoice", "invoice"]);
  });

  it("W25 W03 remains caught also when a later fallback was refused in between", async () => {
    const { asked, card, act } = shop();
    const voucher = effect("once", () => Promise.reject(noFunds()));
    const { instanceId, passedAnew } = await diesBehindEffect(({ step }) =>
      step
        .effect("card", card, null)
        .catch(() => step.effect("voucher", voucher, null))
        .catch(() => step.effect("invoice", act("invoice"), null)),
    );
    await passedAnew();
    expect(await outputOf(instanceId)).toBe("invoice");
    expect(asked).toEqual(["card", "invoice", "invoice"]);
  });

  it("W25 W01 W03 remains caught also when only a claim had recorded it, and that claim's effect was then refused", async () => {
    const { asked, card, act } = shop();
    const voucher = defineStep({ effect: "lookup", ...ONCE, run: () => Promise.reject(noFunds()), lookup: async () => undefined });
    const { instanceId, passedAnew, dies } = await diesBehindEffect(
      ({ step }) =>
        step
          .effect("card", card, null)
          .catch(() => step.effect("voucher", voucher, null))
          .catch(() => step.effect("invoice", act("invoice"), null)),
      "W01 claimed, effect not started",
    );
    const diesAgain = dies("W03 effect done, not recorded");
    await expireLeases(instanceId);
    await passedAnew();
    await diesAgain();
    await passedAnew();
    expect(await outputOf(instanceId)).toBe("invoice");
    expect(asked).toEqual(["card", "invoice", "invoice"]);
  });

  it("W25 W03 remains caught when another branch began the effect", async () => {
    const { asked, card, act } = shop();
    const { instanceId, passedAnew } = await diesBehindEffect(async ({ step }) => {
      let isCaught = false;
      const pay = step.effect("card", card, null).catch(() => {
        isCaught = true;
        return "by invoice";
      });
      const ship = step.read("stock", () => held(() => isCaught)).then(() => step.effect("ship", act("ship"), null));
      return (await Promise.all([pay, ship]))[0];
    });
    await passedAnew();
    expect(await outputOf(instanceId)).toBe("by invoice");
    expect(asked).toEqual(["card", "ship", "ship"]);
  });

  it("W25 W03 wins its race again, although its rival has a record by then", async () => {
    const { asked, card, act } = shop();
    let isDead = false;
    const { instanceId, passedAnew } = await diesBehindEffect(async ({ step, instanceId: id }) => {
      const rival = step.commit("rival", () => held(() => isDead).then(() => ({ output: "rival" })));
      const first = await Promise.race([rival, step.effect("card", card, null).catch(() => "refused")]);
      if (first === "rival") return first;
      await step.effect("invoice", act("invoice"), null);
      return [first, await stateOf(id, "rival")];
    });
    isDead = true;
    await until(() => stateOf(instanceId, "rival"), Boolean);
    await passedAnew();
    expect(await outputOf(instanceId)).toEqual(["refused", "done"]);
    expect(asked).toEqual(["card", "invoice", "invoice"]);
  });

  it("I15 W25 W03 lets an undo find that effect", async () => {
    const { asked, card, act } = shop();
    const { instanceId, passedAnew } = await diesBehindEffect(({ step }) =>
      step.effect("card", card, null).catch(() =>
        step.effect(
          "invoice",
          act(
            "invoice",
            "keyed",
            back(async () => asked.push("credited")),
          ),
          null,
        ),
      ),
    );
    await passedAnew();
    expect(await ended(instanceId)).toBe("complete");
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    expect(asked).toEqual(["card", "invoice", "invoice", "credited"]);
  });
});

describe("A retry after such a death", () => {
  const noShip = ({ step }: { step: Steps }, state: { mended: boolean }) =>
    step.read("ship", async () => (state.mended ? 1 : Promise.reject(new Error("Nobody ships."))), ONCE);

  it("W25 W03 is refused when it names the failed step, unless the operator accepts both effects", async () => {
    const { asked, act } = shop();
    const world = { away: false, funds: false };
    const card = effect("once", async () => (world.funds ? asked.push("card") && "card" : Promise.reject(noFunds())));
    const { instanceId, passedAnew } = await diesBehindEffect(async ({ step }) => {
      await step.read("config", async () => (world.away ? Promise.reject(new Error("Away.")) : 1), ONCE);
      return step.effect("card", card, null).catch(() => step.effect("invoice", act("invoice"), null));
    });
    Object.assign(world, { away: true, funds: true });
    await passedAnew();
    await failed(instanceId);
    world.away = false;
    await expect(retry(instanceId, { from: "card" })).rejects.toMatchObject({
      message: expect.stringContaining('continued with "invoice"'),
    });
    await retry(instanceId, { from: "card", anyway: true });
    expect(await outputOf(instanceId)).toBe("card");
    expect(asked).toEqual(["invoice", "card"]);
  });

  it("W25 W03 follows the branch of the failure when the run failed with another error", async () => {
    const { asked, card, act } = shop();
    const state = { mended: false };
    const { instanceId, passedAnew } = await diesBehindEffect(async (call) => {
      const paid = await call.step.effect("card", card, null).catch(() => call.step.effect("invoice", act("invoice"), null));
      await noShip(call, state);
      return paid;
    });
    await passedAnew();
    await failed(instanceId);
    state.mended = true;
    await retry(instanceId);
    expect(await outputOf(instanceId)).toBe("invoice");
    expect(asked).toEqual(["card", "invoice", "invoice"]);
  });

  it("W25 W03 repeats the step with the failure that the code threw again", async () => {
    const { asked, card, act } = shop();
    const { instanceId, passedAnew } = await diesBehindEffect(async ({ step }) => {
      try {
        return await step.effect("card", card, null);
      } catch (error) {
        await step.effect("tell", act("tell"), null);
        throw error;
      }
    });
    await passedAnew();
    await failed(instanceId);
    await retry(instanceId);
    expect(await outputOf(instanceId)).toBe("card");
    expect(asked).toEqual(["card", "tell", "tell", "card"]);
  });
});
