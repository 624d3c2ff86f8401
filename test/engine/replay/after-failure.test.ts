import { defineStep, notRetryable, type Steps, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import type { ActionPlan } from "../../../packages/millrace/src/operate/instances/plan.ts";
import { operator, probeEnv, reaches, rows } from "../harness.ts";
import { errorOf, platformReaches, runLab } from "../lab.ts";

const ONCE = { retries: { limit: 0, delay: 10 } } as const;

/** A payment that its upstream refuses until `open` is set. */
function payment() {
  const world = { open: false, paid: 0 };
  const definition = defineStep({
    effect: "once",
    ...ONCE,
    run: async () => {
      if (!world.open) throw upstreamRefused("The card is locked.");
      return ++world.paid;
    },
  });
  return { world, definition };
}

/** Runs code that tries to pay, writes a note about the failure, and throws its own error. Returns after the run has failed. */
async function failedPayment(thrown: (cause: unknown) => Error) {
  const { world, definition } = payment();
  const { instanceId } = await runLab(async ({ step }) => {
    try {
      return await step.effect("pay", definition, {});
    } catch (cause) {
      await step.commit("note it", () => ({}));
      throw thrown(cause);
    }
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await platformReaches(instanceId, "errored");
  world.open = true;
  return { instanceId, world };
}

const states = async (id: string) =>
  (await instances.effects(probeEnv, operator, id)).map(({ step, state }) => `${step}: ${state}`).toSorted();

describe("A failure that the code caught before it threw its own error", () => {
  it.concurrent("W25 an error with a caught failure as its cause is attributed to that step, contains both messages, and a retry repeats that step", async () => {
    const { instanceId, world } = await failedPayment((cause) => new Error("The order cannot be paid.", { cause }));
    expect(await errorOf(instanceId)).toMatchObject({
      step: "pay",
      code: "upstream_refused",
      message: "The order cannot be paid. (The card is locked.)",
    });
    expect(await instances.act(probeEnv, operator, "retry", instanceId, { reason: "unlocked" })).toMatchObject({ from: "pay" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect([world.paid, await states(instanceId)]).toEqual([1, ["note it: done", "pay: done"]]);
  });

  it.concurrent("W25 a failure of Promise.any is attributed to the step that failed last", async () => {
    const refuse = (what: string) => async () => {
      throw notRetryable(`No ${what}.`);
    };
    const { instanceId } = await runLab(({ step }: { step: Steps }) =>
      Promise.any([step.read("by rail", refuse("train"), ONCE), step.read("by road", refuse("lorry"), ONCE)]),
    );
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({
      step: "by road",
      code: "not_retryable",
      message: expect.stringContaining("No lorry."),
    });
  });

  it.concurrent("W25 a retry after an error without a cause needs the failed step's name and `force`, because the fallback may remain", async () => {
    const { instanceId, world } = await failedPayment(() => new Error("The order cannot be paid."));
    expect(await errorOf(instanceId)).toMatchObject({ step: "", message: "The order cannot be paid." });
    const again = (force: boolean) => instances.act(probeEnv, operator, "retry", instanceId, { from: "pay", force, reason: "unlocked" });
    await expect(again(false)).rejects.toMatchObject({ code: "invalid_transition", message: expect.stringContaining('"force": true') });
    await again(true);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect([world.paid, await states(instanceId)]).toEqual([1, ["note it: done", "pay: done"]]);
    const audited = await rows<{ detail: string }>(
      "SELECT detail FROM millrace_actions WHERE instance_id = ?1 AND result = 'applied'",
      instanceId,
    );
    expect(audited.map(({ detail }) => JSON.parse(detail))).toMatchObject([{ from: "pay", force: true }]);
  });
});

/** A run that caught the refusal of its mail, wrote a note, and failed at a later step. */
async function wentOnAndFailed() {
  const world = { asked: 0, open: false, broken: true };
  const mail = defineStep({
    effect: "once",
    ...ONCE,
    run: async () => {
      world.asked++;
      if (!world.open) throw upstreamRefused("The mailbox is full.");
      return world.asked;
    },
  });
  const { instanceId } = await runLab(async ({ step }) => {
    await step.effect("mail", mail, {}).catch(() => step.commit("note it", () => ({})));
    await step.commit("fails", () => (world.broken ? Promise.reject(notRetryable("Broken.")) : {}), ONCE);
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await platformReaches(instanceId, "errored");
  Object.assign(world, { open: true, broken: false });
  return { instanceId, world };
}

const verdicts = ({ effects }: Pick<ActionPlan, "effects">) => Object.fromEntries(effects.map(({ step, verdict }) => [step, verdict]));

describe("A dry run for a run that caught a failure and continued", () => {
  it.concurrent("W25 a dry run reports that a retry and a restart throw a caught failure to the code again, and do not repeat its step", async () => {
    const { instanceId, world } = await wentOnAndFailed();
    const told = { mail: "caught", "note it": "kept", fails: "runs" };
    expect(verdicts(await instances.plan(probeEnv, operator, "retry", instanceId, {}))).toEqual(told);
    expect(verdicts(await instances.plan(probeEnv, operator, "restart", instanceId, {}))).toEqual(told);
    expect(verdicts(await instances.plan(probeEnv, operator, "skip", instanceId, { step: "fails" }))).toEqual({
      ...told,
      fails: "skipped",
    });
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(world.asked).toBe(1);
  });

  it.concurrent("W25 a dry run of a retry from a step with a caught failure reports that the step runs, and that its fallback remains", async () => {
    const { instanceId, world } = await wentOnAndFailed();
    const named = { from: "mail", force: true };
    expect(verdicts(await instances.plan(probeEnv, operator, "retry", instanceId, named))).toEqual({ mail: "runs", "note it": "kept" });
    await instances.act(probeEnv, operator, "retry", instanceId, { ...named, reason: "both may stand" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(world.asked).toBe(2);
  });
});

describe("An undo of a run with a read that still fails", () => {
  const room = (world: string[]) =>
    defineStep({
      effect: "keyed",
      ...ONCE,
      run: async () => world.push("reserved"),
      undo: defineStep<Done<unknown, number>, unknown>({ effect: "keyed", run: async () => world.push("released") }),
    });

  it.concurrent("I15 an undo undoes the effects before a failing read when nothing follows that read", async () => {
    const world: string[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("reserve", room(world), {});
      await step.read("price", () => Promise.reject(notRetryable("The price list is gone.")), ONCE);
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["reserved", "released"]);
  });

  it.concurrent("I15 an undo fails with the error of a read before further effects and undoes nothing, and continues once the read succeeds", async () => {
    const world: string[] = [];
    let gone = false;
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("reserve", room(world), {});
      await step.read("price", () => (gone ? Promise.reject(notRetryable("The price list is gone.")) : Promise.resolve(7)), ONCE);
      await step.effect("reserve again", room(world), {});
    });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    gone = true;
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "price", message: "The price list is gone." });
    expect(world).toEqual(["reserved", "reserved"]);
    gone = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "it is back" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["reserved", "reserved", "released", "released"]);
  });
});
