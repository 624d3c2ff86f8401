import { defineStep, type EffectCall, notRetryable, type Steps, upstreamRefused } from "millrace";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { ProbeSignal } from "../../probe/messages.ts";
import { deliver, dieAt, expireLeases, fresh, keeperRound, operator, probeEnv, reaches, rows, statusOf } from "../harness.ts";
import { errorOf, held, outputOf, platformReaches, restartLab, runLab } from "../lab.ts";
import { resolve } from "../operate/operating.ts";
import { openWaits, say } from "../signals/waiting.ts";

const ONCE = { retries: { limit: 0, delay: 10 } } as const;

const stateOf = async (id: string, step: string) =>
  (await rows<{ state: string }>("SELECT state FROM millrace_inbox WHERE instance_id = ?1 AND step = ?2 ORDER BY generation", id, step)).at(
    -1,
  )?.state;

/** A mail with a lost first answer. */
function mail(retries: { limit: number; delay: number } = ONCE.retries) {
  const world = { sent: 0, lost: true };
  const definition = defineStep({
    effect: "once",
    retries,
    run: async () => {
      if (world.lost) throw new Error("The connection was lost.");
      world.sent++;
      return "sent";
    },
  });
  return { world, definition };
}

async function reject(id: string, step: string): Promise<void> {
  const effect = (await instances.effects(probeEnv, operator, id)).find((one) => one.step === step && one.state === "in_doubt");
  await effects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "reject" }, "it never arrived");
}

describe("An effect in doubt that an operator has answered", () => {
  it.concurrent("W16 W17 a retry completes the run when another branch failed after an operator's answer, and repeats no mail", async () => {
    const { world, definition } = mail();
    let broken = true;
    const { instanceId } = await runLab(({ step, instanceId: id }) => {
      const sibling = async () => {
        await held(async () => !broken || (await stateOf(id, "mail")) === "done");
        if (broken) throw notRetryable("Broken.");
        return "fine";
      };
      return Promise.all([step.effect("mail", definition, {}), step.read("sibling", sibling, ONCE)]);
    });
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    world.lost = false;
    await reject(instanceId, "mail");
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    broken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(world.sent).toBe(1);
  });

  it.concurrent("W17 an answered effect that then fails is named in the run's error, and the dry run lists its step once", async () => {
    const { world, definition } = mail();
    const { instanceId } = await runLab(({ step }) =>
      step.effect(
        "mail",
        { ...definition, run: (call) => (world.lost ? definition.run(call) : Promise.reject(upstreamRefused("no"))) },
        {},
      ),
    );
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    world.lost = false;
    await reject(instanceId, "mail");
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "mail" });
    expect(await instances.plan(probeEnv, operator, "retry", instanceId, {})).toEqual({
      from: "mail",
      consequence: expect.stringContaining("the code determines which"),
      note: null,
      refused: null,
      effects: [{ step: "mail", item: "", verdict: "runs" }],
    });
  });

  it.each(["reject", "retry_anyway", "confirm"] as const)(
    "W17 a run with an unawaited effect in doubt is not complete, and an operator's %s completes it",
    async (verb) => {
      const { world, definition } = mail();
      const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
        void step.effect("mail", definition, {}).catch(() => undefined);
        await step.read("wait for the doubt", () => held(async () => (await stateOf(id, "mail")) === "in_doubt"));
      });
      expect(await reaches(instanceId, "in_doubt", "complete")).toBe("in_doubt");
      await scheduler.wait(300);
      expect(await statusOf(instanceId)).toBe("in_doubt");
      world.lost = false;
      dieAt("doubt resolved, instance not notified");
      await expect(resolve(instanceId, "mail", verb === "confirm" ? { verb, output: 7 } : { verb })).rejects.toThrow("Died");
      await keeperRound();
      expect(await reaches(instanceId, "complete")).toBe("complete");
      expect([world.sent, await stateOf(instanceId, "mail")]).toEqual([verb === "confirm" ? 0 : 1, "done"]);
    },
  );
});

describe("A once effect", () => {
  it("W03 an unawaited once effect that died before its record is in doubt, and its run is not complete", async () => {
    const name = fresh("lab");
    let sent = 0;
    const { died } = dieAt("W03 effect done, not recorded", name);
    const definition = defineStep({ effect: "once", retries: { limit: 3, delay: 50 }, run: async () => ++sent });
    const { instanceId } = await runLab(
      async ({ step }) => {
        void step.effect("mail", definition, {}).catch(() => undefined);
        await step.read("wait for the mail", () => held(() => sent > 0));
      },
      { name },
    );
    await held(died);
    await expireLeases(instanceId);
    expect(await reaches(instanceId, "in_doubt", "complete")).toBe("in_doubt");
    expect([died(), sent, await stateOf(instanceId, "mail")]).toEqual([true, 1, "in_doubt"]);
  });

  it.concurrent("W17 a once effect with messages that cannot be created is in doubt at once, with its output and the error", async () => {
    const definition = defineStep({ effect: "once", ...ONCE, run: async () => "mail-7" });
    const record = () => {
      throw new Error("The shop's name is missing.");
    };
    const { instanceId } = await runLab(({ step }) => step.effect("mail", definition, {}, { record }));
    expect(await reaches(instanceId, "in_doubt", "errored")).toBe("in_doubt");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    expect(effect?.error?.message).toContain('The effect happened and returned "mail-7"');
    expect(effect?.error?.message).toContain("The shop's name is missing.");
  });
});

it.concurrent("W25 an effect that is recorded after the code caught its timeout does not change the code's branch in a replay", async () => {
  const done: string[] = [];
  const late = defineStep({
    effect: "keyed",
    ...ONCE,
    timeout: 100,
    // The effect ignores its abort signal.
    run: async () => {
      await held(() => done.length > 0);
      return "late";
    },
  });
  const ship = defineStep({ effect: "natural", run: async ({ input }: EffectCall<string>) => done.push(input) });
  const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
    const by = await step.effect("carrier A", late, {}).then(
      () => "A",
      () => "B",
    );
    await step.effect(`ship with ${by}` as never, ship, by);
    await step.read("wait for the record", () => held(async () => (await stateOf(id, "carrier A")) === "done"));
  });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(await restartLab(instanceId)).toBe("complete");
  expect(done).toEqual(["B"]);
});

it.concurrent("W25 an effect that the code starts without await before it throws does not begin after the run's end or in a retry", async () => {
  const done: string[] = [];
  const pay = defineStep({ effect: "keyed", run: async () => done.push("paid") });
  const { instanceId } = await runLab(async ({ step }) => {
    void step.effect("pay", pay, {}).catch(() => undefined);
    throw new Error("The workflow code is wrong.");
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await platformReaches(instanceId, "errored");
  const before = done.length;
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "once more" });
  await reaches(instanceId, "errored");
  await platformReaches(instanceId, "errored");
  await scheduler.wait(300);
  expect(done.length).toBe(before);
});

it.concurrent("W25 a retry repeats the fallback with a lost answer, and not the step that the fallback replaced", async () => {
  const charged: string[] = [];
  let lost = true;
  const cardA = defineStep({
    effect: "keyed",
    ...ONCE,
    run: async () => (lost ? Promise.reject(upstreamRefused("402")) : charged.push("A")),
  });
  const cardB = defineStep({
    effect: "keyed",
    ...ONCE,
    run: async () => {
      if (!charged.includes("B")) charged.push("B");
      if (lost) throw new Error("500");
    },
  });
  const { instanceId } = await runLab(async ({ step }) => {
    try {
      await step.effect("charge A", cardA, {});
    } catch {
      await step.effect("charge B", cardB, {});
    }
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await platformReaches(instanceId, "errored");
  lost = false;
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the answer was lost" });
  expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  expect(charged).toEqual(["B"]);
});

it.concurrent("W27 an event goes to the current run's wait, not to another wait of an earlier run", async () => {
  let both = true;
  const waitAt = (step: Steps, name: string, subject: string) => step.waitFor(name as never, ProbeSignal, { subject, timeout: "1 hour" });
  const { instanceId, name } = await runLab(async ({ step, payload, instanceId: id }) => {
    const first = waitAt(step, "first", payload.name);
    if (!both) return (await first).value;
    await step.read("the first waits", () => openWaits(id, 1).then(() => 1));
    void waitAt(step, "second", payload.name).catch(() => undefined);
    await step.read("both wait", () => openWaits(id, 2).then(() => 1));
    throw new Error("The workflow code is wrong.");
  });
  expect(await reaches(instanceId, "errored")).toBe("errored");
  await platformReaches(instanceId, "errored");
  both = false;
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
  await reaches(instanceId, "waiting");
  await deliver("probe-events", [say(name, "here")]);
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(await outputOf(instanceId)).toBe("here");
});

it.concurrent.each([0, Number.NaN, 0.5, -1])(
  "a map with the concurrency %d is refused with a remedy, and its run fails",
  async (concurrency) => {
    const { instanceId } = await runLab(({ step }) =>
      step.map(["a"], { key: (one) => one, concurrency }, (_, each) => each.commit("take", () => ({}))),
    );
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid", message: expect.stringContaining("concurrency") });
  },
);
