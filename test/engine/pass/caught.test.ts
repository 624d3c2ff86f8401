import { defineStep, notRetryable, upstreamRefused } from "millrace";
import { decideApproval, listApprovals } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { errorOf, held, outputOf, restartLab, runLab } from "../lab.ts";
import { effect, ended, ONCE, resolve, retry, stateOf } from "../operate/operating.ts";

/** A world in which every step fails until it is fixed, and its effects. */
function world() {
  return { mended: false, happened: [] as string[] };
}

type World = ReturnType<typeof world>;

/** Happens once the world is fixed; before that it fails with this error, and does not happen. */
const fails = (of: "keyed" | "once", name: string, state: World, error: () => Error) =>
  effect(of, async () => {
    if (!state.mended) throw error();
    state.happened.push(name);
    return name;
  });

/** Happens; until the world is fixed its answer is lost. */
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

describe("The fallback of a step that failed", () => {
  it.each([
    ["keyed", noFunds],
    ["natural", noFunds],
    ["keyed", down],
  ] as const)("W25 is retried alone when it is %s, its answer was lost and only the run's end records that failure", async (of, error) => {
    const state = world();
    const { instanceId } = await runLab(({ step }) =>
      step.effect("card", fails("keyed", "card", state, error), null).catch(() => step.effect("invoice", lost(of, "invoice", state), null)),
    );
    expect(await ended(instanceId)).toBe("errored");
    state.mended = true;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect([state.happened, await outputOf(instanceId)]).toEqual([["invoice", "invoice"], "invoice"]);
  });

  it("W25 is retried alone also when the code then threw its own error", async () => {
    const state = world();
    const { instanceId } = await runLab(async ({ step }) => {
      const byInvoice = () => step.effect("invoice", lost("keyed", "invoice", state), null);
      return step
        .effect("card", fails("keyed", "card", state, down), null)
        .catch(byInvoice)
        .catch(() => {
          throw new Error("Neither by card nor by invoice.");
        });
    });
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "", behind: "invoice", message: "Neither by card nor by invoice." });
    state.mended = true;
    expect(await retry(instanceId)).toMatchObject({ from: "invoice" });
    expect(await ended(instanceId)).toBe("complete");
    expect(state.happened).toEqual(["invoice", "invoice"]);
  });

  it.each(["retry_anyway", "reject"] as const)("W17 W25 continues when an operator answers its unknown outcome with %s", async (verb) => {
    const state = world();
    const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
      const pay = () =>
        step
          .effect("card", fails("once", "card", state, noFunds), null)
          .catch(() => step.effect("mail", lost("once", "mail", state), null));
      const failing = async () => {
        await step.read("the mail is in doubt", () => held(async () => state.mended || (await stateOf(id, "mail")) === "in_doubt"));
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
  });

  it("W25 remains in effect when an operator has agreed to it", async () => {
    const state = world();
    const { instanceId } = await runLab(async (call) => {
      const how = await call.step
        .effect("card", fails("once", "card", state, noFunds), null)
        .catch(async () => (await call.step.approve("by invoice", { question: "By invoice?", timeout: "1 hour" })).approved && "invoice");
      await ships(call, state);
      return how;
    });
    await reaches(instanceId, "waiting");
    const [question] = (await listApprovals(probeEnv, operator, { instance: instanceId })).items;
    await decideApproval(probeEnv, operator, question?.id ?? "", "approve", "yes");
    expect(await ended(instanceId)).toBe("errored");
    state.mended = true;
    await retry(instanceId);
    expect(await outputOf(instanceId)).toBe("invoice");
    expect(state.happened).toEqual([]);
  });

  it("W15 W25 remains the only action of a complete run: in a replay the failed step fails again", async () => {
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

describe("A retry that names a caught step", () => {
  it("W25 is refused also when only a failed entry records a dependency on that step", async () => {
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

  it("W25 lets the code run another fallback when the step fails with another error, without a report of nondeterminism", async () => {
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
    error = "The bank is away.";
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

it("W25 A caught failure remains caught when its entry is claimed again after an entry that depends on it", async () => {
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
        // Work outside a step: a read of a cache.
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
  // As if the platform had lost the steps' outcomes, and the run's end was not reported.
  await probeEnv.DB.prepare("UPDATE millrace_instances SET error = json_set(error, '$.step', ''), caught = NULL WHERE id = ?1")
    .bind(instanceId)
    .run();
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(happened).toEqual(["voucher"]);
  expect(await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND step = 'card'", instanceId)).toEqual([]);
});
