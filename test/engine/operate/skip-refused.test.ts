import { defineStep, sql } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it, onTestFinished } from "vitest";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { mode } from "../../probe/mode.ts";
import { dieAt, operator, probeEnv, rows } from "../harness.ts";
import { outputOf, runLab } from "../lab.ts";
import { failed, ONCE, retry, undo } from "./operating.ts";
import { type Bank, bank, type Of, pays, standing, UNFIT } from "./paying.ts";
import { kept } from "./scene.ts";
import { skip, statesOf, van } from "./undo-failing.ts";

/** A run that failed at a payment. */
async function failedToPay(at: Bank, of: Of, how?: "loses" | "refuses"): Promise<string> {
  const { instanceId: id } = await runLab(async ({ step }) => {
    await step.effect("van", van(at.log), null);
    return (await step.effect("pay", pays(at, of, how), null)).paid;
  });
  await failed(id);
  return id;
}

const verdictOn = (plan: { effects: readonly { step: string; verdict: string }[] }) =>
  plan.effects.find(({ step }) => step === "pay")?.verdict;

/** Skips a step with an invalid output, and waits until the run has failed at that step again. */
async function skippedInVain(id: string, more: { output?: unknown } = UNFIT): Promise<void> {
  await skip(id, "pay", more);
  await failed(id);
  expect((await standing(id)).error).toMatchObject({ step: "pay", message: expect.stringContaining("Skip it with a valid output.") });
}

describe("W17 I15 A step that was skipped with an invalid output", () => {
  it("a skip with an invalid output leaves the outcome of a lookup effect unknown: an undo looks the effect up and undoes it", async () => {
    const at = bank();
    const id = await failedToPay(at, "lookup");
    const before = await rows("SELECT state, class, token, repeats, error FROM millrace_inbox WHERE instance_id = ?1 AND step = 'pay'", id);
    expect(verdictOn(await instances.plan(probeEnv, operator, "undo", id, {}))).toBe("asked");
    await skippedInVain(id);
    expect(
      await rows("SELECT state, class, token, repeats, error FROM millrace_inbox WHERE instance_id = ?1 AND step = 'pay'", id),
    ).toEqual(before);
    expect(verdictOn(await instances.plan(probeEnv, operator, "undo", id, {}))).toBe("asked");
    await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(at.log).toEqual(["van", "pay", "ask", "pay back", "van back"]);
  });

  it.each([
    { of: "keyed", steps: "platform" },
    { of: "natural", steps: "inline" },
    { of: "keyed", steps: "inline" },
    { of: "natural", steps: "platform" },
  ] as const)(
    "a skip with an invalid output leaves a refused $of effect ($steps) as not happened: an undo does not repeat it",
    async ({ of, steps }) => {
      mode.steps = steps;
      onTestFinished(() => {
        mode.steps = "platform";
      });
      const at = bank();
      const id = await failedToPay(at, of, "refuses");
      expect(verdictOn(await instances.plan(probeEnv, operator, "undo", id, {}))).toBe("nothing");
      await skippedInVain(id);
      expect(verdictOn(await instances.plan(probeEnv, operator, "undo", id, {}))).toBe("nothing");
      at.away = false;
      await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(at.log).toEqual(["van", "pay", "van back"]);
    },
  );

  it.each(["keyed", "natural", "lookup", "once"] as const)(
    "a failed %s effect runs again in a retry after a skip with an invalid output",
    async (of) => {
      const at = bank();
      const id = await failedToPay(at, of, "refuses");
      const before = await instances.effects(probeEnv, operator, id);
      await skippedInVain(id);
      const brief = (shown: typeof before) => shown.map(({ step, class: its, state, skipped }) => ({ step, its, state, skipped }));
      expect(brief(await instances.effects(probeEnv, operator, id))).toEqual(brief(before));
      expect(verdictOn(await instances.plan(probeEnv, operator, "retry", id, {}))).toBe("runs");
      at.away = false;
      await retry(id);
      expect(await kept(id, "complete", "errored")).toBe("complete");
      expect(at.log).toEqual(["van", "pay", "pay"]);
      const [, pay] = await instances.effects(probeEnv, operator, id);
      expect(pay).toMatchObject({ step: "pay", class: of, state: "done", skipped: false });
    },
  );

  it("a retry looks up an effect that may have happened also after two skips with invalid outputs", async () => {
    const at = bank();
    const id = await failedToPay(at, "lookup");
    await skippedInVain(id);
    await skippedInVain(id);
    at.away = false;
    await retry(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(at.log).toEqual(["van", "pay", "ask"]);
    expect(await outputOf(id)).toBe(2);
  });

  it.each(["from", "restart"] as const)(
    "an effect runs again after a skip with an invalid output when an operator names it in a retry or restarts the run (%s)",
    async (how) => {
      const at = bank();
      const id = await failedToPay(at, "keyed");
      await skippedInVain(id);
      at.away = false;
      if (how === "from") await retry(id, { from: "pay" });
      else {
        expect(verdictOn(await instances.plan(probeEnv, operator, "restart", id, {}))).toBe("runs");
        await instances.act(probeEnv, operator, "restart", id, { reason: "done after all" });
      }
      expect(await kept(id, "complete", "errored")).toBe("complete");
      expect(at.log).toEqual(["van", "pay", "pay"]);
    },
  );

  it("a skip with a valid output can follow one with an invalid output, and an undo does not undo the skipped effect", async () => {
    const at = bank();
    const id = await failedToPay(at, "lookup");
    await skippedInVain(id);
    await skip(id, "pay", { output: { paid: 7 } });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(await outputOf(id)).toBe(7);
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(at.log).toEqual(["van", "pay", "van back"]);
  });

  it("an undo looks up an effect after a skip with an invalid output also when the code caught the failure and continued", async () => {
    const at = bank();
    const { instanceId: id } = await runLab(async ({ step }) => {
      const paid = await step.effect("pay", pays(at, "lookup"), null).catch((error: Error) => error.message);
      if (typeof paid === "string" && !paid.includes("Skip it with a valid output.")) throw new Error("Nobody has paid.");
    });
    await failed(id);
    await skip(id, "pay", UNFIT);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(verdictOn(await instances.plan(probeEnv, operator, "undo", id, {}))).toBe("asked");
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(at.log).toEqual(["pay", "ask", "pay back"]);
  });

  it("an effect that was undone and repeated can run again after a skip with an invalid output", async () => {
    const at = { ...bank(), away: false };
    const { instanceId: id } = await runLab(async ({ step }) => (await step.effect("pay", pays(at, "lookup"), null)).paid);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    at.away = true;
    await retry(id);
    await failed(id);
    await skippedInVain(id);
    expect(await statesOf(id)).toEqual(["pay 1: superseded", "pay 2: claimed", "undo pay 1: done"]);
    at.away = false;
    await retry(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(at.log).toEqual(["pay", "pay back", "pay", "ask"]);
  });
});

describe("W17 A skip that is refused because of its output", () => {
  it("several refused skips do not change the known state of the step, also when the code did not reach that step", async () => {
    const at = bank();
    const state = { broken: false };
    const { instanceId: id } = await runLab(async ({ step }) => {
      if (state.broken) throw new Error("The workflow code throws before it reaches the step.");
      return (await step.effect("pay", pays(at, "lookup"), null)).paid;
    });
    await failed(id);
    state.broken = true;
    await skip(id, "pay", UNFIT);
    await failed(id);
    await rows("UPDATE millrace_instances SET error = json_set(error, '$.step', 'pay') WHERE id = ?1", id);
    state.broken = false;
    await skippedInVain(id);
    expect(await statesOf(id)).toEqual(["pay 1: claimed"]);
  });

  it("a refused skip leaves the effect's outcome unknown when the row has lost the state before the skip", async () => {
    const at = bank();
    const id = await failedToPay(at, "lookup");
    dieAt("skip committed, not applied");
    await expect(skip(id, "pay", UNFIT)).rejects.toThrow("Died");
    await rows("UPDATE millrace_inbox SET skipped_over = NULL WHERE instance_id = ?1 AND step = 'pay'", id);
    expect(await kept(id, "complete", "errored")).toBe("errored");
    expect(await statesOf(id)).toEqual(["van 1: done", "pay 1: claimed"]);
  });

  it("a late refusal of a skip by a replay of an earlier run does not affect the current skip", async () => {
    const at = bank();
    const id = await failedToPay(at, "keyed");
    dieAt("skip committed, not applied");
    await expect(skip(id, "pay", { output: { paid: 7 } })).rejects.toThrow("Died");
    const key = { instanceId: id, step: "pay", item: "", generation: 1 };
    const { run } = await standing(id);
    await recorderOf(probeEnv, id).refuseSkip({ key, epoch: 1, run: run - 1 });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(await outputOf(id)).toBe(7);
  });
});

describe("W17 A skip with an output that the database refuses in the step's rows", () => {
  it("the run fails with the remedies of a skip that cannot be written: another output, or a retry after the code is fixed", async () => {
    const state = { broken: true, keys: new Set<string>(), calls: 0 };
    const pay = defineStep({
      effect: "keyed",
      ...ONCE,
      run: async ({ key }): Promise<{ paid: number }> => {
        state.calls++;
        state.keys.add(key);
        return { paid: 1 };
      },
    });
    const { instanceId: id } = await runLab(async ({ step, payload }) => {
      const record = () => ({
        statements: [
          sql`INSERT INTO probe_rows (id, kind, name) VALUES (${payload.name}, ${state.broken ? null : "paid"}, ${payload.name})`,
        ],
      });
      return (await step.effect("pay", pay, null, { record })).paid;
    });
    await failed(id);
    await skip(id, "pay", { output: { paid: 7 } });
    await failed(id);
    const { error } = await standing(id);
    expect(error).toMatchObject({
      step: "pay",
      attempts: 1,
      message: expect.stringContaining("cannot be written with the given output"),
    });
    expect(error?.message).toContain("NOT NULL");
    expect(error?.hint).toBeUndefined();
    expect((await instances.plan(probeEnv, operator, "retry", id, {})).note).toBeNull();
    state.broken = false;
    await retry(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect([state.calls, state.keys.size, await outputOf(id)]).toEqual([2, 1, 1]);
  });

  it("an error between the steps has no hint about a skip that the code did not reach", async () => {
    const state = { broken: false };
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("van", van([]), null);
      if (state.broken) throw new Error("The workflow code throws before it reaches the step.");
      await step.effect("pay", pays(bank(), "keyed", "refuses"), null);
    });
    await failed(id);
    state.broken = true;
    await skip(id, "pay", { output: { paid: 7 } });
    await failed(id);
    expect((await standing(id)).error).toMatchObject({ message: "The workflow code throws before it reaches the step." });
    expect((await standing(id)).error?.hint).toBeUndefined();
    state.broken = false;
    await instances.act(probeEnv, operator, "retry", id, { reason: "mended" });
    expect(await kept(id, "complete", "errored")).toBe("complete");
  });
});
