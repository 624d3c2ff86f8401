import { defineStep, notRetryable, retryAfter } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { platformId } from "../../../packages/millrace/src/contract/ids.ts";
import { dieAt, keeperRound, operator, probeEnv, rows } from "../harness.ts";
import { held, platformReaches } from "../lab.ts";
import { carriedOut, losing, refusing } from "./cutting-off.ts";
import { back, effect } from "./operating.ts";
import { comes, kept, play, scene } from "./scene.ts";

/** Cancels a run. The dry run must report the effect's outcome as unknown, and that the effect is repeated under its key. */
async function cancelAsForeseen(id: string): Promise<void> {
  const { effects, consequence } = await instances.plan(probeEnv, operator, "cancel", id, {});
  expect([effects, consequence]).toEqual([
    [{ step: "b", item: "", verdict: "unknown" }],
    expect.stringContaining("is repeated under its key"),
  ]);
  await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
}

describe("W20 an effect that happened at its first attempt without a record", () => {
  it("a cancel undoes an effect with an unrecorded first attempt while a pause holds its next attempt", async () => {
    const its = scene();
    const step = losing(its.log, () => "it");
    const id = await play(its, (steps) => steps.effect("b", step, {}));
    await comes(() => its.log.includes("done"));
    await instances.act(probeEnv, operator, "pause", id, { reason: "let me look" });
    await comes(async () => {
      const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, id));
      return steps.some(({ name, state }) => name === "b" && state === "paused");
    });
    await cancelAsForeseen(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["done", "undo it"]);
  });

  it("a cancel undoes an effect with an unrecorded first attempt and a name that resembles the engine's own steps", async () => {
    const its = scene();
    const { state, next } = refusing();
    const step = losing(its.log, next);
    const id = await play(its, (steps) => steps.map(["c · d"], { key: (item) => item }, (_, own) => own.effect("b · paused", step, {})));
    await comes(() => state.refused);
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["done", "undo it"]);
  });

  it("a cancel undoes an effect with an unrecorded first attempt and a temporarily refused second attempt", async () => {
    const its = scene();
    const { state, next } = refusing();
    const step = losing(its.log, next);
    const id = await play(its, (steps) => steps.effect("b", step, {}));
    await comes(() => state.refused);
    await cancelAsForeseen(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["done", "undo it"]);
  });

  it("a cancel does not repeat an effect that its upstream refused temporarily (429), because it has not happened", async () => {
    const its = scene();
    const run = async () => {
      its.log.push("asked");
      throw retryAfter(3_600_000, "Too many requests. ".repeat(100), 429);
    };
    const step = defineStep({ effect: "keyed", run, undo: back(async () => its.log.push("undo b")), retries: { limit: 5, delay: 1000 } });
    const id = await play(its, async (steps) => {
      await its.act(steps, "a");
      await steps.effect("b", step, {});
    });
    await comes(() => its.log.includes("asked"));
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "asked", "undo a(its a)"]);
  });

  it("a cancel undoes an effect with an unrecorded first attempt after more steps than one page of the platform lists", async () => {
    const its = scene();
    const { state, next } = refusing();
    const step = losing(its.log, next);
    const id = await play(its, async (steps) => {
      for (let nth = 0; nth < 180; nth++) await steps.read("look", async () => nth, { key: String(nth) });
      await steps.effect("b", step, {});
    });
    await comes(() => state.refused);
    await cancelAsForeseen(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["done", "undo it"]);
  });

  it("a cancel does not repeat an effect without an undo handler after a failed attempt", async () => {
    const its = scene();
    let tries = 0;
    const run = async () => (++tries === 1 ? Promise.reject(new Error("It is away.")) : its.log.push("b"));
    const lasting = defineStep({ effect: "keyed", run, retries: { limit: 5, delay: "1 hour" } });
    const id = await play(its, async (steps) => {
      await its.act(steps, "a");
      await steps.effect("b", lasting, {});
    });
    await comes(() => tries === 1);
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "undo a(its a)"]);
  });

  it.each(["stopped and retried", "restarted twice"] as const)(
    "a cancel undoes an effect with an unrecorded first attempt in a run that was %s and has not reached it again",
    async (how) => {
      const its = scene();
      const { state, next } = refusing();
      const step = losing(its.log, next);
      let [passes, goOn] = [0, 1];
      const id = await play(its, async (steps) => {
        const own = ++passes;
        await steps.read("look", async () => own > 1 && (await held(() => own <= goOn)));
        await steps.effect("b", step, {});
      });
      await comes(() => state.refused);
      if (how === "stopped and retried") await instances.act(probeEnv, operator, "cancel", id, { reason: "stop", undo: false });
      else await instances.act(probeEnv, operator, "restart", id, { reason: "it hangs" });
      await carriedOut(id);
      if (how === "stopped and retried") await instances.act(probeEnv, operator, "retry", id, { reason: "go on" });
      else {
        const restarted = instances.act(probeEnv, operator, "restart", id, { reason: "it hangs still" });
        // A replay caches the status of its row for 0.7 s.
        await scheduler.wait(800);
        goOn = 2;
        await restarted;
      }
      await carriedOut(id);
      const cancelled = instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
      await comes(async () => (await instances.get(probeEnv, operator, id)).undo !== null);
      await scheduler.wait(800);
      goOn = 9;
      await cancelled;
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(its.log).toEqual(["done", "undo it"]);
    },
  );

  it("a cancel after a restart undoes an effect with an unrecorded first attempt that the new run has not reached", async () => {
    const its = scene();
    const { state, next } = refusing();
    const step = losing(its.log, next);
    const id = await play(its, async (steps) => {
      await steps.sleep("rest", state.refused ? "1 hour" : 10);
      await steps.effect("b", step, {});
    });
    await comes(() => state.refused);
    await instances.act(probeEnv, operator, "restart", id, { reason: "it hangs" });
    await comes(async () => {
      await keeperRound();
      return (await rows("SELECT 1 FROM millrace_actions WHERE instance_id = ?1 AND restarted_at IS NOT NULL", id)).length === 1;
    });
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["done", "undo it"]);
  });

  it("a retry of an undo that failed at another effect does not repeat an effect with an unrecorded first attempt again", async () => {
    const its = scene();
    const { state, next } = refusing();
    const step = losing(its.log, () => {
      const answer = next();
      its.log.push("done again");
      return answer;
    });
    let isRefused = true;
    const undo = back(async () => (isRefused ? Promise.reject(notRetryable("Not today.")) : its.log.push("undo first")));
    const first = effect("natural", async () => its.log.push("first"), { undo });
    const id = await play(its, async (steps) => {
      await steps.effect("a", first, {});
      await steps.effect("b", step, {});
    });
    await comes(() => state.refused);
    await instances.act(probeEnv, operator, "restart", id, { reason: "it hangs" });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("errored");
    await platformReaches(platformId(id, (await instances.get(probeEnv, operator, id)).undo_action), "errored");
    isRefused = false;
    await instances.act(probeEnv, operator, "retry", id, { reason: "the upstream accepts the request now" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["first", "done", "done again", "undo it", "undo first"]);
  });

  it("an undo does not repeat an effect with an unrecorded first attempt and a permanently refused later attempt: the effect has not happened", async () => {
    const its = scene();
    let tries = 0;
    const step = defineStep({
      effect: "keyed",
      retries: { limit: 5, delay: "1 hour" },
      run: async () => {
        its.log.push("asked");
        throw ++tries === 1 ? new Error("It is away.") : notRetryable("No such account.");
      },
      undo: back(async () => its.log.push("undo")),
    });
    const id = await play(its, async (steps) => {
      await its.act(steps, "a");
      await steps.effect("b", step, {}).catch(() => undefined);
    });
    await comes(() => its.log.includes("asked"));
    await instances.act(probeEnv, operator, "restart", id, { reason: "it hangs" });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "asked", "asked", "undo a(its a)"]);
  });

  it.each(["undone", "retried"] as const)(
    "a cancelled effect with an unrecorded first attempt is undone when its run is %s before the platform gets the cancel",
    async (how) => {
      const its = scene();
      const step = losing(its.log, () => "it");
      let [passes, goOn] = [0, 1];
      const id = await play(its, async (steps) => {
        const own = ++passes;
        await its.act(steps, "a");
        await steps.read("look", async () => own > 1 && (await held(() => own <= goOn)));
        await steps.effect("b", step, {});
      });
      await comes(() => its.log.includes("done"));
      const { died } = dieAt("cancel committed, not applied");
      await instances.act(probeEnv, operator, "cancel", id, { reason: "stop", undo: false }).catch(() => undefined);
      expect(died()).toBe(true);
      // The replay detects the cancel at its next attempt and ends.
      await platformReaches(id, "errored", "terminated");
      if (how === "undone") {
        goOn = 9;
        await instances.act(probeEnv, operator, "undo", id, { reason: "all of it" });
      } else {
        await instances.act(probeEnv, operator, "retry", id, { reason: "go on" });
        await comes(() => passes > 1);
        const cancelled = instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
        await comes(async () => (await instances.get(probeEnv, operator, id)).undo !== null);
        await scheduler.wait(800);
        goOn = 9;
        await cancelled;
      }
      await carriedOut(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(its.log).toEqual(["a", "done", "undo it", "undo a(its a)"]);
    },
  );
});
