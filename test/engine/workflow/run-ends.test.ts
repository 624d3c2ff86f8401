import { defineStep, upstreamRefused } from "millrace";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, held, outputOf, platformOf, platformReaches, restartLab, runLab } from "../lab.ts";
import { effect, retry } from "../operate/operating.ts";

const ONCE = { retries: { limit: 0, delay: 10 } } as const;

describe("A run with code that ends before an unawaited effect", () => {
  it("W20 I15 a run ends after the record of its unawaited effect, so that an undo finds that effect", async () => {
    const world: string[] = [];
    let slow = true;
    const reserve = defineStep({
      effect: "keyed",
      run: async () => {
        await held(() => !slow);
        world.push("reserved");
        return 1;
      },
      undo: defineStep<Done<unknown, number>, unknown>({ effect: "keyed", run: async () => world.push("released") }),
    });
    const { instanceId } = await runLab(async ({ step }) => {
      void step.effect("reserve", reserve, {}).catch(() => undefined);
      await step.commit("note", () => ({}));
      return "early";
    });
    await reaches(instanceId, "running");
    await scheduler.wait(300);
    expect([await statusOf(instanceId), (await platformOf(instanceId)).status]).toEqual(["running", "running"]);
    slow = false;
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("early");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "not wanted" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["reserved", "released"]);
  });

  it("W25 a run begins no step after the end of its code, also while an unawaited effect is running", async () => {
    const world: string[] = [];
    const may = { first: false, other: false };
    const act = (name: string, when: () => boolean) => effect("natural", () => held(when).then(() => world.push(name)));
    const [first, other, behind] = [act("first", () => may.first), act("other", () => may.other), act("behind", () => true)];
    const { instanceId } = await runLab(async ({ step }) => {
      void step.effect("first", first, {}).then(() => step.effect("behind", behind, {}));
      void step.effect("other", other, {});
      await step.commit("note", () => ({}));
    });
    await reaches(instanceId, "running");
    may.first = true;
    await held(() => world.length > 0);
    await scheduler.wait(500);
    may.other = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(world).toEqual(["first", "other"]);
  });

  it("W25 after the end of its code a run does not wait for a further attempt of an unawaited step", async () => {
    let attempts = 0;
    const { instanceId } = await runLab(async ({ step }) => {
      const failing = async () => {
        attempts++;
        throw new Error("not now");
      };
      void step.read("fails", failing, { retries: { limit: 50, delay: 200, backoff: "constant" } }).catch(() => undefined);
      await step.read("first attempt", () => held(() => attempts > 0));
    });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    const by = attempts;
    await scheduler.wait(500);
    expect(attempts).toBe(by);
  });
});

describe("An operator's retry", () => {
  it("W17 W16 a retry repeats an effect that failed after an operator had answered its unknown outcome", async () => {
    const state = { lost: true, broken: true };
    const mail = defineStep({
      effect: "once",
      ...ONCE,
      run: async () => {
        if (state.lost) throw new Error("The connection was lost.");
        if (state.broken) throw upstreamRefused("The address is wrong.");
        return "sent";
      },
    });
    const { instanceId } = await runLab(({ step }) => step.effect("mail", mail, {}));
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    state.lost = false;
    const [{ key } = { key: "" }] = await instances.effects(probeEnv, operator, instanceId);
    await effects.resolve(probeEnv, operator, key, { verb: "reject" }, "it never arrived");
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    state.broken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the address is corrected" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("sent");
  });
});

describe("An effect in doubt of a complete run", () => {
  it("W17 an effect in doubt of a complete run cannot be repeated, and its outcome can still be recorded", async () => {
    const { instanceId } = await runLab(async ({ step }) => void (await step.commit("act", () => ({}))));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await probeEnv.DB.prepare("UPDATE millrace_inbox SET state = 'in_doubt' WHERE instance_id = ?1").bind(instanceId).run();
    const [{ key } = { key: "" }] = await instances.effects(probeEnv, operator, instanceId);
    await expect(effects.resolve(probeEnv, operator, key, { verb: "retry_anyway" }, "why not")).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("its instance is complete"),
    });
    await effects.resolve(probeEnv, operator, key, { verb: "reject" }, "it never arrived");
    expect(await rows("SELECT state, generation FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([
      { state: "failed", generation: 1 },
    ]);
    expect(await rows("SELECT verb, result FROM millrace_actions WHERE instance_id = ?1 ORDER BY at", instanceId)).toEqual([
      { verb: "retry_anyway", result: "no_change" },
      { verb: "reject", result: "applied" },
    ]);
  });
});

describe("The recorded end of a run", () => {
  it.each([
    ["failed and then as complete", ["errored", "complete"]],
    ["complete and then as failed", ["complete", "errored"]],
  ] as const)("I17 a run that is reported as %s at the same time is complete", async (_, ends) => {
    let done = false;
    const { instanceId: id } = await runLab(({ step }) => step.read("still at work", () => held(() => done)));
    await platformReaches(id, "running");
    const recorder = recorderOf(probeEnv, id);
    const end = (status: (typeof ends)[number]) => ({
      id,
      run: 1,
      status,
      error: status === "errored" ? "{}" : null,
      replay: "",
      readAt: 0,
    });
    // The first query makes the two reports wait for the same batch.
    await Promise.all([recorder.standing(id), ...ends.map((status) => recorder.finish(end(status), true))]);
    expect(await statusOf(id)).toBe("complete");
    done = true;
    expect(await platformReaches(id, "complete")).toBe("complete");
  });

  it.each(["dead", "skipped"])(
    "I17 a run shows its true status although its message was reported as %s during the start",
    async (believed) => {
      let go = false;
      const { instanceId } = await runLab(async ({ step }) => {
        await step.read("started", () => held(() => go));
        await step.commit("act", () => ({}));
        await step.read("goes on", () => held(() => !go));
      });
      await platformReaches(instanceId, "running");
      await probeEnv.DB.prepare("UPDATE millrace_instances SET status = ?2, check_at = NULL WHERE id = ?1")
        .bind(instanceId, believed)
        .run();
      go = true;
      expect(await reaches(instanceId, "running")).toBe("running");
      go = false;
      expect(await reaches(instanceId, "complete")).toBe("complete");
    },
  );

  it.each(["while the code runs", "after the end of the code"])(
    "a run fails when an unawaited effect fails permanently %s, and a retry repeats that effect only",
    async (when) => {
      const state = { broken: true, failed: false, did: 0 };
      const behind = effect("keyed", async () => {
        if (when === "after the end of the code") await scheduler.wait(300);
        state.failed = true;
        if (state.broken) throw new Error("The printer is out of paper.");
        return 1;
      });
      const { instanceId } = await runLab(async ({ step }) => {
        void step.effect("print", behind, {});
        await step.commit("act", () => {
          state.did++;
          return {};
        });
        if (when !== "after the end of the code") await step.read("later", () => held(() => state.failed));
        return "done";
      });
      expect(await reaches(instanceId, "complete", "errored")).toBe("errored");
      expect(await errorOf(instanceId)).toMatchObject({ step: "print", message: "The printer is out of paper." });
      await platformReaches(instanceId, "errored");
      state.broken = false;
      await retry(instanceId);
      expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
      expect([await outputOf(instanceId), state.did]).toEqual(["done", 1]);
    },
  );

  it.each(["retried", "restarted by the platform"])(
    "a failed unawaited effect also fails a run that is %s, although another step failed after it",
    async (how) => {
      const state = { broken: true, did: 0 };
      const behind = effect("keyed", async () => (state.broken ? Promise.reject(new Error("No paper.")) : ++state.did));
      const { instanceId } = await runLab(async ({ step }) => {
        void step.effect("print", behind, {});
        await step.read("a moment", () => scheduler.wait(200).then(() => 1));
        await step.commit("act", () => ({}));
        if (how === "retried") await step.read("check", async () => (state.broken ? Promise.reject(new Error("Broken.")) : 1), { ...ONCE });
      });
      expect(await reaches(instanceId, "complete", "errored")).toBe("errored");
      await platformReaches(instanceId, "errored");
      if (how === "retried") {
        state.broken = false;
        await retry(instanceId);
        await reaches(instanceId, "complete", "errored");
        if ((await statusOf(instanceId)) === "errored") await platformReaches(instanceId, "errored").then(() => retry(instanceId));
        expect(await reaches(instanceId, "complete")).toBe("complete");
        expect(state.did).toBe(1);
      } else {
        expect(await restartLab(instanceId)).toBe("errored");
        expect(await statusOf(instanceId)).toBe("errored");
      }
    },
  );

  it("a run completes when its code catches a step's failure later, or when another branch wins a race against the failed step", async () => {
    const bad = effect("keyed", async () => Promise.reject(new Error("Bad.")));
    const { instanceId } = await runLab(async ({ step }) => {
      const late = step.effect("late", bad, {});
      const raced = Promise.race([step.effect("raced", bad, {}).finally(() => scheduler.wait(500)), step.commit("act", () => ({}))]);
      await step.read("meanwhile", () => scheduler.wait(200).then(() => 1));
      await raced;
      return late.catch((error: Error) => error.message);
    });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("Bad.");
  });

  it("W11 a run with a class instance as its result is complete in the database and on the platform, with plain data", async () => {
    class Receipt {
      readonly number = 7;
      readonly at = new Date(0);
    }
    const { instanceId } = await runLab(async () => new Receipt());
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toMatchObject({ result: { number: 7, at: "1970-01-01T00:00:00.000Z" } });
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it.each([
    ["is no JSON", () => ({ big: 1n }), "output_not_serializable"],
    ["is larger than the platform stores", () => "x".repeat(1024 * 1024), "output_too_large"],
  ])(
    "W11 a run with a result that %s is recorded as failed in the database and on the platform, with a remedy",
    async (_, result, code) => {
      const { instanceId } = await runLab(async ({ step }) => {
        await step.commit("note", () => ({}));
        return result();
      });
      expect(await platformReaches(instanceId, "complete", "errored")).toBe("errored");
      expect(await reaches(instanceId, "errored")).toBe("errored");
      expect(await errorOf(instanceId)).toMatchObject({ code, message: expect.stringContaining("The workflow's result") });
    },
  );
});

it("the error of a run names the step that hung until the end of its last attempt", async () => {
  const { instanceId } = await runLab(({ step }) =>
    step.read("hangs", () => new Promise<number>(() => undefined), { ...ONCE, timeout: 100 }),
  );
  const status = await until(
    () => statusOf(instanceId),
    (is) => is === "errored",
    25_000,
  );
  expect([status, await errorOf(instanceId)]).toEqual([
    "errored",
    expect.objectContaining({ step: "hangs", code: "step_timeout", attempts: 1 }),
  ]);
}, 30_000);
