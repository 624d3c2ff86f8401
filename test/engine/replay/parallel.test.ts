import { defineStep, type Steps } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { fresh, operator, pauseAt, probeEnv, reaches, rows, until } from "../harness.ts";
import { errorOf, LAB, platformReaches, restartLab, runLab } from "../lab.ts";
import { recorded, retried, world } from "./world.ts";

describe("Parallel branches with several steps each", () => {
  it("W25 parallel branches continue after an operator's retry and any number of restarts, in any order of their ends", async () => {
    const { done, waits, refusing, act, chain } = world();
    waits.a1 = () => done.includes("b2");
    refusing.add("last");
    const { instanceId } = await runLab(async ({ step }) => {
      await Promise.all([chain(step, "a1", "a2"), chain(step, "b1", "b2")]);
      await act(step, "last");
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    refusing.clear();
    expect(await retried(instanceId)).toBe("complete");
    expect(await restartLab(instanceId)).toBe("complete");
    expect(await restartLab(instanceId)).toBe("complete");
    expect(done).toEqual(["b1", "b2", "a1", "a2", "last"]);
  });

  it("W25 a parallel branch continues when another one has failed, and a retry repeats only the failed one", async () => {
    const { done, waits, refusing, chain } = world();
    waits.a1 = () => done.includes("b1");
    refusing.add("a2");
    const { instanceId } = await runLab(({ step }) => Promise.all([chain(step, "a1", "a2", "a3"), chain(step, "b1", "b2")]));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    refusing.clear();
    expect(await retried(instanceId)).toBe("complete");
    expect(done.toSorted()).toEqual(["a1", "a2", "a3", "b1", "b2"]);
  });

  it("W25 I15 an undo undoes the effects of parallel branches in the reverse order of their records", async () => {
    const { done, back, waits, chain } = world();
    waits.a1 = () => done.includes("b2");
    const { instanceId } = await runLab(({ step }) => Promise.all([chain(step, "a1", "a2"), chain(step, "b1", "b2")]));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(back).toEqual(["a2", "a1", "b2", "b1"]);
  });

  it("W20 W25 an undo looks up an effect with a lost answer and a caught failure, and undoes that effect and its fallback", async () => {
    const { done, back, act } = world();
    const booked: string[] = [];
    const booking = defineStep({
      effect: "lookup",
      retries: { limit: 0, delay: 10 },
      lookup: async () => booked[0],
      run: async (): Promise<string> => {
        booked.push("booking 1");
        throw new Error("The answer was lost");
      },
      undo: defineStep<Done<null, string>, unknown>({ effect: "natural", run: async ({ input }) => back.push(input.output) }),
    });
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("book", booking, null).catch(() => act(step, "instead"));
      await act(step, "behind");
    });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await platformReaches(instanceId, "complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect([done, back.toSorted()]).toEqual([
      ["instead", "behind"],
      ["behind", "booking 1", "instead"],
    ]);
  });

  it("I16 an undone instance does nothing when the platform replays it: only a retry repeats its steps", async () => {
    const { done, chain } = world();
    const { instanceId } = await runLab(({ step }) => chain(step, "a", "b"));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await platformReaches(instanceId, "complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    await (await LAB.get(instanceId)).restart();
    expect(await platformReaches(instanceId, "errored")).toBe("errored");
    expect([done, await reaches(instanceId, "terminated")]).toEqual([["a", "b"], "terminated"]);
    expect(await retried(instanceId)).toBe("complete");
    expect(done).toEqual(["a", "b", "a", "b"]);
  });

  it("W25 a branch that is running when the code returns begins no further step, also after a restart", async () => {
    const { done, waits, chain, act } = world();
    let returned = false;
    waits.b1 = () => returned;
    const { instanceId } = await runLab(({ step }) =>
      Promise.race([act(step, "a1"), chain(step, "b1", "b2")]).finally(() => {
        returned = true;
      }),
    );
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await restartLab(instanceId)).toBe("complete");
    expect(done).toEqual(["a1", "b1"]);
  });

  it("W25 the end of a run is not reported before the effect of a running branch is recorded", async () => {
    const { done, waits, chain, act } = world();
    const name = fresh("lab");
    let ended = false;
    waits.b1 = () => ended;
    const end = pauseAt("W33 end recorded, replay not over", name);
    const { instanceId } = await runLab(({ step }) => Promise.race([act(step, "a1"), chain(step, "b1", "b2")]), { name });
    await recorded(instanceId, "a1");
    await scheduler.wait(200);
    expect(end.reached()).toBe(false);
    ended = true;
    await until(async () => end.reached(), Boolean);
    await recorded(instanceId, "b1");
    await scheduler.wait(200);
    end.release();
    expect(await platformReaches(instanceId, "complete")).toBe("complete");
    expect(done).toEqual(["a1", "b1"]);
  });

  it("W25 a caught error is thrown again in every later replay, although the upstream would succeed now; a retry repeats an uncaught one", async () => {
    const { done, refusing, act } = world();
    refusing.add("by card").add("book");
    const heard: unknown[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      await act(step, "by card").catch((error: Error) => {
        heard.push(error.message);
        return act(step, "by invoice");
      });
      await act(step, "book");
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    refusing.clear();
    // The platform restarts the run without any recorded steps.
    await platformReaches(instanceId, "errored");
    expect(await restartLab(instanceId)).toBe("complete");
    expect(done).toEqual(["by invoice", "book"]);
    expect(heard[1]).toBe(heard[0]);
    expect(await restartLab(instanceId)).toBe("complete");
    expect(done).toEqual(["by invoice", "book"]);

    const other = world();
    other.refusing.add("pay");
    const again = await runLab(({ step }) =>
      other.act(step, "pay").catch(async (error) => {
        await other.act(step, "report the failure");
        throw error;
      }),
    );
    expect(await reaches(again.instanceId, "errored")).toBe("errored");
    other.refusing.clear();
    expect(await retried(again.instanceId)).toBe("complete");
    expect(other.done).toEqual(["report the failure", "pay"]);
  });

  it("W25 a retry does not repeat a step with a failure that the code caught, and is refused when it names that step", async () => {
    const { done, refusing, act } = world();
    refusing.add("by card");
    let mended = false;
    const { instanceId } = await runLab(async ({ step }) => {
      await act(step, "by card").catch(() => act(step, "by invoice"));
      if (!mended) throw new TypeError("undefined is not a function");
      await act(step, "book");
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    refusing.clear();
    mended = true;
    await platformReaches(instanceId, "errored");
    const named = instances.act(probeEnv, operator, "retry", instanceId, { from: "by card", reason: "the card works now" });
    await expect(named).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining('continued with "by invoice"'),
    });
    expect(await retried(instanceId)).toBe("complete");
    expect(done).toEqual(["by invoice", "book"]);
  });

  it("W25 W12 a random step name in one branch fails the run: both names are reported, and nothing happens twice", async () => {
    const { done, waits, chain } = world();
    waits.b1 = () => done.length === 2;
    const { instanceId } = await runLab(async ({ step }) => {
      await Promise.all([chain(step, "a1", `a2 ${crypto.randomUUID()}`), chain(step, "b1", "b2")]);
      await step.read("check", () => Promise.reject(new Error("Broken.")), { retries: { limit: 0, delay: 10 } });
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    expect(await restartLab(instanceId)).toBe("errored");
    const [, a2] = done.toSorted();
    expect(done).toHaveLength(4);
    const { steps } = await instances.history(probeEnv, { id: instanceId, workflow: "lab" });
    const said = steps.flatMap(({ attempts }) => attempts.map(({ error }) => error?.message ?? ""));
    expect(said).toContainEqual(expect.stringContaining(`recorded the step "${a2}" where the code now calls "a2 `));
    expect(await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND step LIKE 'a2 %'", instanceId)).toHaveLength(1);
  });

  it("W25 a step that other asynchronous work delays in a replay is recognized as late, and not as missing", async () => {
    const { done, waits, act, refusing } = world();
    let pause = 0;
    refusing.add("c");
    waits.c = () => done.includes("late");
    const { instanceId } = await runLab(async ({ step }) => {
      const late = async () => {
        await scheduler.wait(pause);
        await act(step, "late");
      };
      await Promise.all([late(), act(step, "b").then(() => act(step, "c"))]);
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await recorded(instanceId, "late");
    refusing.clear();
    pause = 100;
    expect(await retried(instanceId)).toBe("complete");
    expect(done).toEqual(expect.arrayContaining(["late", "b", "c"]));
    expect(done).toHaveLength(3);
  });
});

it("a step name that leaves no space for the engine's suffix is refused with a remedy", async () => {
  const { act } = world();
  const { instanceId } = await runLab(({ step }) => act(step, "n".repeat(217)));
  expect(await reaches(instanceId, "errored")).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid", message: expect.stringContaining("at most 216") });

  const { instanceId: fits } = await runLab(({ step }) => act(step, fresh("n".repeat(200))));
  expect(await reaches(fits, "complete", "errored")).toBe("complete");
});

it.each([
  ["a step's key", (step: Steps) => step.commit("take", () => ({}), { key: "📣 sale".slice(0, 1) })],
  [
    "an item's key",
    (step: Steps) => step.map(["📣 sale"], { key: (one) => one.slice(0, 1) }, (_, each) => each.commit("take", () => ({}))),
  ],
])("half a surrogate pair in %s ends the run before any effect, with a remedy", async (_, code) => {
  const { instanceId } = await runLab(({ step }) => code(step));
  expect(await reaches(instanceId, "complete", "errored")).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining("cut texts between characters, or use a digest as the key"),
  });
  expect(await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([]);
});

it("W13 keys that contain a slash give separate steps, in maps and in nested maps", async () => {
  const inner: Record<string, string[]> = { en: ["us/a"], "en/us": ["a"] };
  const { instanceId } = await runLab(({ step }) =>
    step.map(Object.keys(inner), { key: (one) => one }, async (outer, each) => {
      await each.map(inner[outer] ?? [], { key: (one) => one }, (_, own) => own.commit("take", () => ({})));
      await each.commit("keep", () => ({}), { key: outer === "en" ? "us/a" : "a" });
    }),
  );
  expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  const items = (step: string) =>
    rows("SELECT item FROM millrace_inbox WHERE instance_id = ?1 AND step = ?2 ORDER BY item", instanceId, step);
  const named = [{ item: "en%2fus/a" }, { item: "en/us%2fa" }];
  expect([await items("take"), await items("keep")]).toEqual([named, named]);
});
