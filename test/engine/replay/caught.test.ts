import { defineStep, notRetryable, upstreamRefused } from "millrace";
import { approvals } from "millrace/operate";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import type { LabCall } from "../../probe/lab.ts";
import { operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { errorOf, held, outputOf, restartLab, runLab } from "../lab.ts";
import { back, effect, ended, ONCE, resolve, retry, stateOf, undo } from "../operate/operating.ts";

/** The state of a simulated upstream: whether it is fixed, and the effects that happened. */
function world() {
  return { mended: false, happened: [] as string[] };
}

type World = ReturnType<typeof world>;

/** An effect that fails with this error and does not happen until the upstream is fixed. */
const fails = (of: "keyed" | "once", name: string, state: World, error: () => Error) =>
  effect(of, async () => {
    if (!state.mended) throw error();
    state.happened.push(name);
    return name;
  });

/** An effect that happens, and loses its answer until the upstream is fixed. */
const lost = (of: "keyed" | "natural" | "once", name: string, state: World) =>
  effect(of, async () => {
    state.happened.push(name);
    if (!state.mended) throw new Error("The answer was lost.");
    return name;
  });

const ships = ({ step }: LabCall, state: World) =>
  step.read("ship", async () => (state.mended ? 1 : Promise.reject(new Error("Nobody ships."))), ONCE);

const noFunds = () => notRetryable("No funds.");
const down = () => new Error("The card service is down.");

describe("A fallback that the code runs after a failed step", () => {
  it.each([
    ["keyed", noFunds],
    ["natural", noFunds],
    ["keyed", down],
  ] as const)(
    "W25 a retry repeats only the %s fallback with a lost answer, also when only the run's end records the failure before it",
    async (of, error) => {
      const state = world();
      const { instanceId } = await runLab(({ step }) =>
        step
          .effect("card", fails("keyed", "card", state, error), null)
          .catch(() => step.effect("invoice", lost(of, "invoice", state), null)),
      );
      expect(await ended(instanceId)).toBe("errored");
      state.mended = true;
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("complete");
      expect([state.happened, await outputOf(instanceId)]).toEqual([["invoice", "invoice"], "invoice"]);
    },
  );

  it("W25 a retry repeats only the fallback with a lost answer also when the code then threw its own error", async () => {
    const state = world();
    const { instanceId } = await runLab(async ({ step }) => {
      const byInvoice = () => step.effect("invoice", lost("keyed", "invoice", state), null);
      return step
        .effect("card", fails("keyed", "card", state, down), null)
        .catch(byInvoice)
        .catch(() => {
          throw new Error("The card and the invoice have failed.");
        });
    });
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "", behind: "invoice", message: "The card and the invoice have failed." });
    state.mended = true;
    expect(await retry(instanceId)).toMatchObject({ from: "invoice" });
    expect(await ended(instanceId)).toBe("complete");
    expect(state.happened).toEqual(["invoice", "invoice"]);
  });

  it.each(["retry_anyway", "reject"] as const)(
    "W17 W25 a retry continues after the fallback in doubt that an operator answered with %s",
    async (verb) => {
      const state = world();
      const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
        const pay = () =>
          step
            .effect("card", fails("once", "card", state, noFunds), null)
            .catch(() => step.effect("mail", lost("once", "mail", state), null));
        const failing = async () => {
          await step.read("wait for the doubt", () => held(async () => state.mended || (await stateOf(id, "mail")) === "in_doubt"));
          if (!state.mended) throw new Error("Broken.");
        };
        return (await Promise.all([pay(), failing()]))[0];
      });
      expect(await ended(instanceId)).toBe("errored");
      await resolve(instanceId, "mail", { verb });
      state.mended = true;
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("complete");
      expect(state.happened).toEqual(["mail", "mail"]);
    },
  );

  it("W25 a retry repeats no failed step after an operator has approved its fallback", async () => {
    const state = world();
    const { instanceId } = await runLab(async (call) => {
      const how = await call.step
        .effect("card", fails("once", "card", state, noFunds), null)
        .catch(async () => (await call.step.approve("by invoice", { question: "By invoice?", timeout: "1 hour" })).approved && "invoice");
      await ships(call, state);
      return how;
    });
    await reaches(instanceId, "waiting");
    const [question] = (await approvals.list(probeEnv, operator, { instance: instanceId })).items;
    await approvals.decide(probeEnv, operator, question?.id ?? "", "approve", "yes");
    expect(await ended(instanceId)).toBe("errored");
    state.mended = true;
    await retry(instanceId);
    expect(await outputOf(instanceId)).toBe("invoice");
    expect(state.happened).toEqual([]);
  });

  it("W15 W25 a caught failure without a later record fails again when the platform replays the complete run", async () => {
    const state = world();
    const { instanceId } = await runLab(async ({ step }) => {
      await step.commit("first", () => ({}));
      return step
        .effect(
          "tell",
          fails("once", "tell", state, () => upstreamRefused("Not now.")),
          null,
        )
        .catch(() => "untold");
    });
    expect(await outputOf(instanceId)).toBe("untold");
    state.mended = true;
    expect(await restartLab(instanceId)).toBe("complete");
    expect([state.happened, await outputOf(instanceId)]).toEqual([[], "untold"]);
  });
});

describe("A retry from a step with a caught failure", () => {
  it("W25 a retry from a step with a caught failure is refused also when only a failed effect followed that step", async () => {
    const state = world();
    const { instanceId } = await runLab(async (call) => {
      const { step } = call;
      await step.effect("card", fails("keyed", "card", state, down), null).catch(async () => {
        await step
          .effect(
            "voucher",
            fails("once", "voucher", state, () => upstreamRefused("No voucher.")),
            null,
          )
          .catch(() => undefined);
        await step.effect(
          "invoice",
          effect("keyed", async () => state.happened.push("invoice")),
          null,
        );
      });
      await ships(call, state);
    });
    expect(await ended(instanceId)).toBe("errored");
    state.mended = true;
    await expect(retry(instanceId, { from: "card" })).rejects.toMatchObject({ code: "invalid_transition" });
    expect(state.happened).toEqual(["invoice"]);
  });

  it("W25 a retry from a step with another error runs another fallback, and reports no nondeterminism", async () => {
    let error: string | undefined = "No funds.";
    const { instanceId } = await runLab(async ({ step }) => {
      const pay = effect("keyed", async () => (error === undefined ? "paid" : Promise.reject(new Error(error))));
      await step.effect("pay", pay, null).catch(async (cause: Error) => {
        if (cause.message === "No funds.") await step.commit("hold order", () => ({}));
        else await step.commit("report outage", () => ({}));
        throw new Error("Not paid.", { cause });
      });
    });
    expect(await ended(instanceId)).toBe("errored");
    error = "The bank is unavailable.";
    await retry(instanceId);
    await until(
      () => stateOf(instanceId, "report outage"),
      (is) => is === "done",
    );
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "pay" });
    error = undefined;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
  });
});

/** A run that pays, catches a failure of the payment by a commit that depends on the failure, and then ships. */
async function payment() {
  const state = { error: "No funds." as string | undefined, ships: false };
  const pay = effect("keyed", async () => (state.error === undefined ? "paid" : Promise.reject(new Error(state.error))), {
    undo: back(async () => 1),
  });
  const { instanceId } = await runLab(async ({ step }) => {
    const paid = await step.effect("pay", pay, null).catch(async ({ message }: Error) => {
      if (message === "No funds.") await step.commit("hold order", () => ({}));
      else await step.commit("report outage", () => ({}));
      return message;
    });
    await step.read("ship", async () => (state.ships ? 1 : Promise.reject(new Error("Nobody ships."))), ONCE);
    return paid;
  });
  expect(await ended(instanceId)).toBe("errored");
  return { state, instanceId };
}

const PAY_AGAIN = { from: "pay", force: true };

describe("A retry from a step with a caught failure, although an effect depends on the failure", () => {
  it("W25 a step that fails with another error in a retry keeps this error in later runs, and not the error of the first run", async () => {
    const { state, instanceId } = await payment();
    state.error = "The bank is unavailable.";
    await retry(instanceId, PAY_AGAIN);
    expect(await ended(instanceId)).toBe("errored");
    Object.assign(state, { error: undefined, ships: true });
    await retry(instanceId);
    expect(await outputOf(instanceId)).toBe("The bank is unavailable.");
  });

  it("W25 a second retry from a step that failed again with the same error is refused, because the effect depends on this error", async () => {
    const { state, instanceId } = await payment();
    await retry(instanceId, PAY_AGAIN);
    expect(await ended(instanceId)).toBe("errored");
    state.error = undefined;
    await expect(retry(instanceId, { from: "pay" })).rejects.toMatchObject({ message: expect.stringContaining('with "hold order"') });
  });

  it("W25 W18 a retry after an undo executes a step again after a retry had cleared the step's failure", async () => {
    const { state, instanceId } = await payment();
    Object.assign(state, { error: undefined, ships: true });
    await retry(instanceId, PAY_AGAIN);
    expect(await outputOf(instanceId)).toBe("paid");
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    await retry(instanceId);
    expect(await outputOf(instanceId)).toBe("paid");
  });
});

it("W25 a retry from a step is refused when an effect that depends on its failure is recorded at the same moment", async () => {
  const state = world();
  const { instanceId } = await runLab(async (call) => {
    await call.step.effect("card", fails("keyed", "card", state, down), null).catch(() => undefined);
    await ships(call, state);
  });
  expect(await ended(instanceId)).toBe("errored");
  const key = { instanceId, step: "invoice", item: "", generation: 1 };
  const late = { key, position: 0, after: '[0,["card"]]', caught: JSON.stringify({ card: { name: "Error", message: "Down." } }) };
  const attempt = { ...late, replay: "aaaaaaaa", readAt: null, token: "aaaaaaaa", epoch: 1, class: "natural", saysItRuns: false } as const;
  const database = Object.getPrototypeOf(probeEnv.DB) as D1Database;
  const { batch } = database;
  const spy = vi.spyOn(database, "batch").mockImplementation(async function (this: D1Database, statements) {
    if ((statements as unknown as { statement: string }[]).some((one) => one.statement.includes("INSERT INTO millrace_actions"))) {
      spy.mockRestore();
      await recorderOf(probeEnv, instanceId).record(attempt, { output: "1", outputRef: null, statements: [], messages: [], error: null });
    }
    return batch.call(this, statements) as never;
  });
  onTestFinished(() => spy.mockRestore());
  await expect(retry(instanceId, { from: "card" })).rejects.toMatchObject({ message: expect.stringContaining('continued with "invoice"') });
});

it("W25 a caught failure remains caught when the fallback that follows it is repeated after later steps", async () => {
  const happened: string[] = [];
  const state = { voucher: false, ship: false };
  const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
    const has = (name: string, ...states: string[]) => held(async () => states.includes((await stateOf(id, name)) ?? ""));
    const voucher = defineStep({
      effect: "lookup",
      ...ONCE,
      timeout: 20_000,
      run: async () => {
        if (state.voucher) return happened.push("voucher");
        await has("reserve", "done");
        throw new Error("No answer.");
      },
      lookup: async () => undefined,
    });
    const card = effect("keyed", async () => (state.ship ? happened.push("card") : Promise.reject(notRetryable("No funds."))));
    const pay = () =>
      step.effect("card", card, null).catch(async () => {
        // This pause simulates work outside a step, such as a read of a cache.
        await scheduler.wait(60);
        return step.effect("voucher", voucher, null);
      });
    const other = async () => {
      await step.read("stock", () => has("voucher", "claimed", "done"), { timeout: 20_000 });
      await step.commit("reserve", () => ({}));
    };
    await Promise.all([pay(), other()]);
    await step.read("ship", async () => (state.ship ? 1 : Promise.reject(new Error("Nobody ships."))), ONCE);
  });
  expect(await ended(instanceId)).toBe("errored");
  state.voucher = true;
  await retry(instanceId);
  await until(
    async () => (await errorOf(instanceId))?.step,
    (step) => step === "ship",
  );
  state.ship = true;
  // The state is as if the platform had lost the steps' outcomes and the run's end had not been reported.
  await probeEnv.DB.prepare("UPDATE millrace_instances SET error = json_set(error, '$.step', ''), caught = NULL WHERE id = ?1")
    .bind(instanceId)
    .run();
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(happened).toEqual(["voucher"]);
  expect(await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND step = 'card'", instanceId)).toEqual([]);
});
