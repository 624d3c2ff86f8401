import { defineStep, type Steps } from "millrace";
import type { CrashPoint } from "millrace/testing";
import { describe, expect, it } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { expireLeases, fresh, pauseAt, until } from "../harness.ts";
import { held, LAB, outputOf, runLab } from "../lab.ts";
import { back, effect, ended, failed, ONCE, retry, stateOf, undo } from "../operate/operating.ts";
import { down, noFunds, shop } from "./shop.ts";

/** Runs code until one of its effects has happened without a record. Then the process dies, and the platform has no record of the step. */
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

describe("A caught failure before an effect that happened without a record, because its process died", () => {
  it.each([
    ["keyed", noFunds],
    ["natural", noFunds],
    ["keyed", down],
    ["natural", down],
  ] as const)(
    "W25 W03 a caught failure is caught again after a crash in the next effect (%s), which is repeated and recorded",
    async (of, error) => {
      const { asked, card, act } = shop({ error });
      const { instanceId, passedAnew } = await diesBehindEffect(({ step }) =>
        step.effect("card", card, null).catch(() => step.effect("invoice", act("invoice", of), null)),
      );
      await passedAnew();
      expect(await outputOf(instanceId)).toBe("invoice");
      expect(asked).toEqual(["card", "invoice", "invoice"]);
      expect(await stateOf(instanceId, "invoice")).toBe("done");
    },
  );

  it("W25 W03 a caught failure is caught again after a crash in the next effect when the code read and slept in between", async () => {
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

  it("W25 W03 a caught failure is caught again after a crash when another fallback was refused in between", async () => {
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

  it("W25 W01 W03 a caught failure is caught again after two crashes when its only record was the claim of a refused effect", async () => {
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

  it("W25 W03 a caught failure is caught again after a crash in an effect of another branch", async () => {
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

  it("W25 W03 a caught failure that won a race wins again after a crash, although the other branch has a record by then", async () => {
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

  it("I15 W25 W03 an undo finds the effect after a caught failure, although its process died before the record", async () => {
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

describe("A retry after a crash in the effect that follows a caught failure", () => {
  const noShip = ({ step }: { step: Steps }, state: { mended: boolean }) =>
    step.read("ship", async () => (state.mended ? 1 : Promise.reject(new Error("Nobody ships."))), ONCE);

  it("W25 W03 a retry from a step with a caught failure is refused after a crash in its fallback, unless the operator accepts both effects", async () => {
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
    await retry(instanceId, { from: "card", force: true });
    expect(await outputOf(instanceId)).toBe("card");
    expect(asked).toEqual(["invoice", "card"]);
  });

  it("W25 W03 a retry after another failure follows the branch of the caught failure", async () => {
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

  it("W25 W03 a retry repeats the step with a failure that the code caught and threw again", async () => {
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
