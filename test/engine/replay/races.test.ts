import { defineStep, notRetryable, type Steps } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { EntryKey } from "../../../packages/millrace/src/contract/ids.ts";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { NAMING_MS } from "../../../packages/millrace/src/replay/step-order.ts";
import { expireLeases, fresh, keeperRound, operator, pauseAt, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, held, LAB, outputOf, platformReaches, restartLab, runLab } from "../lab.ts";
import { recorded, retried, world } from "./world.ts";

/** Records a commit after the read "a", as another replay of the instance would. */
async function recordAsAnother(key: EntryKey): Promise<void> {
  const { instanceId } = key;
  const [{ position } = { position: 0 }] = await rows<{ position: number }>(
    "SELECT coalesce(max(position), -1) + 1 AS position FROM millrace_inbox WHERE instance_id = ?1",
    instanceId,
  );
  const { readAt } = await recorderOf(probeEnv, instanceId).history(instanceId);
  const other = { key, position, after: '[0,"a"]', caught: null, replay: "aaaaaaaa", readAt: readAt + 1, token: "aaaaaaaa", epoch: 1 };
  const attempt = { ...other, class: "commit", saysItRuns: false } as const;
  const outcome = { output: null, outputRef: null, statements: [], messages: [], error: null };
  expect(await recorderOf(probeEnv, instanceId).record(attempt, outcome)).toMatchObject({ mine: true });
}

describe("Races of parallel branches", () => {
  it("W25 a race has the same winner in every later replay, although its loser has finished and is read sooner", async () => {
    const { done, back, waits, act, chain } = world();
    waits.loser = () => done.includes("after first");
    const winners: unknown[] = [];
    const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
      const winner = await Promise.race([chain(step, "first", "second"), act(step, "loser")]);
      winners.push(winner);
      await act(step, `after ${winner}`);
      await step.read("wait for loser", () => recorded(id, "loser"));
    });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await recorded(instanceId, "loser");
    expect(await restartLab(instanceId)).toBe("complete");
    expect(winners).toEqual(["first", "first"]);
    expect(done).toEqual(["first", "second", "after first", "loser"]);
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(back).toEqual(["loser", "after first", "second", "first"]);
  });

  it("W25 W18 a race that an undo and a retry repeated keeps its second winner in later replays", async () => {
    const { done, back, waits, act } = world();
    const look = { ms: 0 };
    const winners: unknown[] = [];
    waits.slow = () => done.includes("after look");
    const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
      await Promise.all([act(step, "a"), act(step, "b")]);
      await act(step, "c");
      const stays = step.commit("stays", () => ({}));
      const winner = await Promise.race([step.read("look", () => scheduler.wait(look.ms).then(() => "look")), act(step, "slow")]);
      winners.push(winner);
      await act(step, `after ${winner}`);
      await stays;
      await step.read("wait for slow", () => recorded(id, "slow"));
    });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await platformReaches(instanceId, "complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    done.length = 0;
    expect(await retried(instanceId)).toBe("complete");
    // From now on recorded outcomes are read at once, and the read takes 300 ms.
    look.ms = 300;
    expect(await restartLab(instanceId)).toBe("complete");
    expect(new Set(winners)).toEqual(new Set(["look"]));
    expect(done.toSorted()).toEqual(["a", "after look", "b", "c", "slow"]);
    back.length = 0;
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off again" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(back).toEqual(["slow", "after look", "c", ...done.slice(0, 2).toReversed()]);
  });

  it("W25 W18 a retry after an undo does not repeat a step that was never undone, in any order of its branches", async () => {
    const { done, refusing, act } = world();
    const ms: Record<string, number> = { q: 20, r: 120, p: 70, last: 200 };
    refusing.add("last");
    const { instanceId } = await runLab(async ({ step }) => {
      const read = (name: string) => step.read(`read ${name}` as never, () => scheduler.wait(ms[name] ?? 0));
      await Promise.all([
        read("p").then(() => act(step, "p")),
        Promise.all([read("q"), read("r")]).then(() => step.commit("stays", () => ({}))),
        read("last").then(() => act(step, "last")),
      ]);
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    refusing.clear();
    Object.assign(ms, { q: 900, r: 50, p: 0, last: 100 });
    expect(await retried(instanceId)).toBe("complete");
    expect(done.toSorted()).toEqual(["last", "p", "p"]);
    expect(await restartLab(instanceId)).toBe("complete");
    expect(done).toHaveLength(3);
  });

  it("W25 W18 a replay that finds a claim of its own run continues, because the claim lists the outcomes of that run before it", async () => {
    const { waits, refusing, act } = world();
    const name = fresh("lab");
    const look = { ms: 0, claimed: 0 };
    const claimed = defineStep({
      effect: "lookup",
      retries: { limit: 0, delay: 10 },
      lookup: async () => undefined,
      run: async () => ++look.claimed,
      undo: defineStep<Done<null, number>, unknown>({ effect: "natural", run: async () => 1 }),
    });
    refusing.add("beside");
    waits.beside = () => look.claimed > 0;
    const { instanceId } = await runLab(
      ({ step }) =>
        Promise.all([
          step.read("look", () => scheduler.wait(look.ms)).then(() => step.effect("claimed", claimed, null)),
          act(step, "beside"),
        ]),
      { name },
    );
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await recorded(instanceId, "claimed");
    await platformReaches(instanceId, "errored");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    refusing.clear();
    waits.beside = () => look.claimed > 1;
    const claim = pauseAt("W01 claimed, effect not started", name);
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "again" });
    await until(async () => claim.reached(), Boolean);
    look.ms = 1500;
    await expireLeases(instanceId);
    await (await LAB.get(instanceId)).restart();
    claim.release();
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("W25 a replay ends when another replay has recorded another winner of a race, and the next replay follows that record", async () => {
    const { done, act } = world();
    const name = fresh("lab");
    let open = "b";
    const read = (step: Steps, which: string) => step.read(which as never, () => held(() => open.includes(which)).then(() => which));
    const pause = pauseAt("W06 about to record", name);
    const { instanceId } = await runLab(
      async ({ step }) => {
        const first = await Promise.race([read(step, "a"), read(step, "b")]);
        await step.commit(`won by ${first}` as never, () => ({}));
        await act(step, `after ${first}`);
        return first;
      },
      { name },
    );
    await until(async () => pause.reached(), Boolean);
    await recordAsAnother({ instanceId, step: "won by a", item: "", generation: 1 });
    pause.release();
    open = "a, b";
    await until(
      () => keeperRound().then(() => statusOf(instanceId)),
      (status) => status === "complete",
    );
    expect([await outputOf(instanceId), done]).toEqual(["a", ["after a"]]);
    const steps = await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position", instanceId);
    expect(steps).toEqual([{ step: "won by a" }, { step: "after a" }]);
  });

  it("W25 W18 a replay ends when another replay has repeated an undone effect after another winner of a race", async () => {
    const { done, act } = world();
    const name = fresh("lab");
    let open = "a";
    const read = (step: Steps, which: string) => step.read(which as never, () => held(() => open.includes(which)).then(() => which));
    const { instanceId } = await runLab(
      async ({ step }) => {
        const first = await Promise.race([read(step, "a"), read(step, "b")]);
        await step.commit(`won by ${first}` as never, () => ({}), { undo: () => ({}) });
        await act(step, `after ${first}`);
        return first;
      },
      { name },
    );
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await platformReaches(instanceId, "complete");
    open = "a, b";
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    [open, done.length] = ["b", 0];
    const pause = pauseAt("W06 about to record", name);
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "again" });
    await until(async () => pause.reached(), Boolean);
    await recordAsAnother({ instanceId, step: "won by a", item: "", generation: 2 });
    pause.release();
    open = "a, b";
    await until(
      () => keeperRound().then(() => statusOf(instanceId)),
      (status) => status === "complete" || status === "errored",
    );
    expect([await outputOf(instanceId), done]).toEqual(["a", ["after a"]]);
  });

  it.each([
    [50, "a race keeps its winner when the winner's branch does other work between two reads, and the loser is read meanwhile"],
    [3000, "a run fails with nondeterministic_steps when a race would get another winner, because the winner's branch calls its step late"],
  ])("W25 after %i ms, %s", async (lateMs) => {
    const { done, act } = world();
    const state = { isRead: false, isBroken: true, workMs: 50 };
    const { instanceId } = await runLab(async ({ step }) => {
      const branch = step
        .read("first", async () => 1)
        .then(() => scheduler.wait(state.workMs))
        .then(() => step.read("second", async () => "winner"));
      const winner = await Promise.race([branch, step.read("loser", () => held(() => state.isRead).then(() => "loser"))]);
      await act(step, `after ${winner}`);
      state.isRead = true;
      await step.read("wait for loser", () => scheduler.wait(50));
      await step.read("mended", () => (state.isBroken ? Promise.reject(notRetryable("Broken.")) : 1));
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    Object.assign(state, { isBroken: false, workMs: lateMs });
    if (lateMs > NAMING_MS) {
      expect(await retried(instanceId)).toBe("errored");
      expect(await errorOf(instanceId)).toMatchObject({ code: "nondeterministic_steps", step: "after loser" });
      state.workMs = 50;
    }
    expect(await retried(instanceId)).toBe("complete");
    expect(done).toEqual(["after winner"]);
  });

  it("W25 a race with a loser that never finishes can end, be restarted and be undone", async () => {
    const { done, back, act } = world();
    const { instanceId } = await runLab(async ({ step }) => {
      await Promise.race([act(step, "winner"), step.sleep("for ever", "365 days")]);
      await act(step, "behind");
    });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await restartLab(instanceId)).toBe("complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect([done, back]).toEqual([
      ["winner", "behind"],
      ["behind", "winner"],
    ]);
  });

  it("W25 an undo does not wait for a read that lost a race and never finishes", async () => {
    const { done, back, act } = world();
    const { instanceId } = await runLab(async ({ step }) => {
      await Promise.race([act(step, "winner"), step.read("for ever", () => held(() => back.length > 1))]);
      await act(step, "behind");
    });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await platformReaches(instanceId, "complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect([done, back]).toEqual([
      ["winner", "behind"],
      ["behind", "winner"],
    ]);
  });

  it("W25 I3 an effect of a race's loser that a crash interrupted is repeated, recorded and can be undone; the loser begins no later step", async () => {
    const { done, back, waits, chain, act } = world();
    const name = fresh("lab");
    const crash = pauseAt("W03 effect done, not recorded", name);
    // The crash happens in the loser.
    waits.winner = () => crash.reached();
    const { instanceId } = await runLab(
      ({ step }) => Promise.race([act(step, "winner"), step.sleep("nap", 20).then(() => chain(step, "loser", "behind"))]),
      { name },
    );
    await until(async () => crash.reached(), Boolean);
    await recorded(instanceId, "winner");
    // The platform has the steps before the loser on record, as after a crash.
    await (await LAB.get(instanceId)).restart({ from: { name: "loser" } });
    expect(await platformReaches(instanceId, "complete")).toBe("complete");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(done).toEqual(["loser", "winner", "loser"]);
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(back.toSorted()).toEqual(["loser", "winner"]);
  });

  it("W25 a race that a failure decided keeps its winner in a retry after a later failure", async () => {
    const { done, waits, refusing, act } = world();
    refusing.add("first");
    let mended = false;
    const { instanceId } = await runLab(async ({ step }) => {
      const first = act(step, "first").catch(async () => {
        await act(step, "note the failure");
        return new Promise<never>(() => undefined);
      });
      const winner = await Promise.race([first, act(step, "second")]);
      await act(step, `after ${winner}`);
      if (!mended) throw new TypeError("undefined is not a function");
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    refusing.clear();
    waits.second = () => done.includes("first");
    mended = true;
    expect(await retried(instanceId)).toBe("complete");
    expect(done.toSorted()).toEqual(["after second", "note the failure", "second"]);
  });
});

it("W25 a race that is the run's result has the same winner when the platform restarts the complete run", async () => {
  let holds = true;
  const real = probeEnv.PAYLOADS.get.bind(probeEnv.PAYLOADS);
  // The loser is recorded first. Its large output is read slowly, so the code receives the winner's outcome first.
  const get = vi.spyOn(Object.getPrototypeOf(probeEnv.PAYLOADS) as R2Bucket, "get").mockImplementation((async (key: string) => {
    if (holds && key.startsWith("outputs/")) await scheduler.wait(1000);
    return real(key);
  }) as never);
  onTestFinished(() => get.mockRestore());
  const { instanceId } = await runLab(({ step, instanceId: id }) => {
    const isRecorded = async () =>
      (await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND step = 'large' AND state = 'done'", id)).length > 0;
    const large = async () => {
      await step.commit("large", () => ({ output: "x".repeat(200_000) }));
      return "large";
    };
    const small = async () => {
      await step.commit("small", () => held(isRecorded).then(() => ({})));
      return "small";
    };
    return Promise.race([large(), small()]);
  });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(await outputOf(instanceId)).toBe("small");
  holds = false;
  expect(await restartLab(instanceId)).toBe("complete");
  expect(await outputOf(instanceId)).toBe("small");
});
