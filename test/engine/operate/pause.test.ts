import { instances } from "millrace/operate";
import { Recorder } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { labPasses } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { deliver, dieAt, envelopeOf, event, keeperRound, operator, probeEnv, reaches, rows } from "../harness.ts";
import { platformOf } from "../lab.ts";
import { comes, kept, play, scene, waiting } from "./scene.ts";

const pause = (id: string) => instances.act(probeEnv, operator, "pause", id, { reason: "the shop asks us to wait" });
const resume = (id: string) => instances.act(probeEnv, operator, "resume", id, { reason: "on again" });
const standing = (id: string) => instances.get(probeEnv, operator, id);

/** Runs three rounds of the keeper; each would begin the next step if the pause did not hold it. */
async function nothingBegins(): Promise<void> {
  for (let round = 0; round < 3; round++) await keeperRound();
}

describe("A paused instance", () => {
  it("a paused instance records its running effect, and begins no step until it is resumed", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "once", "slow");
      await its.act(step, "b");
    });
    await comes(() => its.log.includes("a"));
    expect((await instances.plan(probeEnv, operator, "pause", id, {})).effects).toEqual([{ step: "a", item: "", verdict: "under_way" }]);
    await pause(id);
    its.state.go = true;
    await comes(async () => (await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND state = 'done'", id)).length === 1);
    await nothingBegins();
    expect(await standing(id)).toMatchObject({ status: "paused", run: 1 });
    expect(its.log).toEqual(["a"]);
    expect((await instances.plan(probeEnv, operator, "resume", id, {})).effects).toEqual([
      { step: "a", item: "", verdict: "kept" },
      { step: "b", item: "", verdict: "runs" },
    ]);
    await resume(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(its.log).toEqual(["a", "b"]);
    expect(await rows("SELECT verb, result FROM millrace_actions WHERE instance_id = ?1 ORDER BY at", id)).toEqual([
      { verb: "pause", result: "applied" },
      { verb: "resume", result: "applied" },
    ]);
  });

  it.each(["resumed", "cancelled"] as const)(
    "the steps of a paused instance show which of them the pause held, also once the instance is %s",
    async (how) => {
      const its = scene();
      const id = await play(its, async (step) => {
        await its.act(step, "a", "once", "slow");
        await step.read("b", () => Promise.resolve(1));
      });
      const states = async () =>
        (await instances.steps(probeEnv, operator, await standing(id))).steps.map(
          ({ name, state, event_type }) => `${name}: ${state}${event_type ?? ""}`,
        );
      await comes(() => its.log.includes("a"));
      await pause(id);
      its.state.go = true;
      await comes(async () => (await states()).length === 3);
      expect(await states()).toEqual(["a: complete", "b: paused", "b · paused 1: waiting"]);
      if (how === "resumed") {
        await resume(id);
        expect(await kept(id, "complete", "errored")).toBe("complete");
        expect(await states()).toEqual(["a: complete", "b: paused", "b · paused 1: complete", "b · after pause 1: complete"]);
        expect((await instances.steps(probeEnv, operator, await standing(id))).steps.map(({ own }) => own)).toEqual([
          null,
          null,
          { of: "b", part: "paused" },
          { of: "b", part: "after_pause" },
        ]);
      } else {
        await instances.act(probeEnv, operator, "cancel", id, { undo: false, reason: "not any more" });
        expect(await kept(id, "terminated")).toBe("terminated");
        await keeperRound();
        expect(await states()).toEqual(["a: complete", "b: paused", "b · paused 1: stopped"]);
      }
    },
  );

  it("a paused instance begins nothing when its sleep ends or its event arrives; the event is delivered after the resume", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await step.sleep("rest", 50);
      const { value } = await step.waitFor("event", ProbeSignal, { subject: its.name });
      its.log.push(`heard ${value}`);
      await its.act(step, "b");
    });
    await reaches(id, "waiting");
    await pause(id);
    await probeEnv.PROBE_EVENTS.send(event("probe.signal", its.name, { about: its.name, value: "news" }));
    await nothingBegins();
    expect(its.log).toEqual([]);
    expect((await standing(id)).status).toBe("paused");
    await resume(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(its.log).toEqual(["heard news", "b"]);
  });

  it("a paused instance makes no further attempt at a step until it is resumed", async () => {
    const its = scene();
    let tries = 0;
    const id = await play(its, async (step) => {
      await step.read(
        "flaky",
        async () => {
          if (++tries === 1) throw new Error("Not now.");
          return tries;
        },
        // The delay is long enough for the pause to come before the second attempt.
        { retries: { limit: 3, delay: 4000 } },
      );
    });
    await comes(() => tries === 1);
    await pause(id);
    await comes(async () => (await rows("SELECT 1")).length === 1 && (await platformOf(id)).status !== "complete");
    await scheduler.wait(4500);
    expect(tries).toBe(1);
    await resume(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(tries).toBe(2);
  });

  it("an instance that is paused before its start begins its first step when it is resumed", async () => {
    const its = scene();
    dieAt("A03 accept committed, not enqueued");
    await play(its, (step) => its.act(step, "a")).catch(() => undefined);
    const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", its.name);
    await pause(id);
    await deliver("probe-commands", [await envelopeOf(id)]);
    await nothingBegins();
    expect(its.log).toEqual([]);
    expect((await standing(id)).status).toBe("paused");
    await resume(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(its.log).toEqual(["a"]);
  });

  it("a paused instance is not started by its queued message, although the process dies before the platform gets the pause", async () => {
    const its = scene();
    const { id, message } = await waiting(its, (step) => its.act(step, "a"));
    dieAt("pause committed, not applied");
    await pause(id).catch(() => undefined);
    await deliver("probe-commands", [message]);
    await nothingBegins();
    expect(its.log).toEqual([]);
    await resume(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(its.log).toEqual(["a"]);
  });

  it("a paused instance can be cancelled, and its effects are undone", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "keyed", "slow");
      await its.act(step, "b");
    });
    await comes(() => its.log.includes("a"));
    await pause(id);
    its.state.go = true;
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "undo a(its a)"]);
  });

  it("a paused instance remains paused when the platform replays it, as after a killed process", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "natural", "slow");
      await its.act(step, "b");
    });
    await comes(() => its.log.includes("a"));
    await pause(id);
    its.state.go = true;
    const instance = await (probeEnv as unknown as { LAB: Workflow }).LAB.get(id);
    await comes(async () => (await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND state = 'done'", id)).length === 1);
    const before = labPasses.get(id) ?? 0;
    await instance.pause().catch(() => undefined);
    await instance.resume().catch(() => undefined);
    await comes(async () => (labPasses.get(id) ?? 0) > before || (await platformOf(id)).status === "running");
    await nothingBegins();
    expect(its.log).toEqual(["a"]);
    await resume(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(its.log).toEqual(["a", "b"]);
  });

  it.each(["pause committed, not applied", "resume committed, not applied"] as const)(
    "a resumed instance continues although the process died at: %s",
    async (point) => {
      const its = scene();
      const id = await play(its, async (step) => {
        await its.act(step, "a", "natural", "slow");
        await its.act(step, "b");
      });
      await comes(() => its.log.includes("a"));
      const { died } = dieAt(point);
      await pause(id).catch(() => undefined);
      its.state.go = true;
      await nothingBegins();
      expect(its.log).toEqual(["a"]);
      await resume(id).catch(() => undefined);
      expect(died()).toBe(true);
      expect(await kept(id, "complete", "errored")).toBe("complete");
      expect(its.log).toEqual(["a", "b"]);
    },
  );

  it("a double click on pause is one action, and a pause or resume of a complete instance is refused", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "natural", "slow");
    });
    await comes(() => its.log.includes("a"));
    const clicks = await Promise.allSettled([pause(id), pause(id)]);
    expect(clicks.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    await expect(pause(id)).rejects.toMatchObject({ code: "invalid_transition", detail: { from: "paused", to: "paused" } });
    its.state.go = true;
    await resume(id);
    await expect(resume(id)).rejects.toMatchObject({ code: "invalid_transition" });
    expect(await kept(id, "complete")).toBe("complete");
    await expect(pause(id)).rejects.toMatchObject({ detail: { from: "complete", to: "paused" } });
    expect((await instances.plan(probeEnv, operator, "pause", id, {})).refused).toContain("only an instance that has not ended");
  });
});

it("a resumed run continues once the database returns its status again", async () => {
  const its = scene();
  const id = await play(its, async (step) => {
    await its.act(step, "a", "once", "slow");
    await its.act(step, "b", "once");
  });
  await comes(() => its.log.includes("a"));
  await pause(id);
  its.state.go = true;
  await comes(async () => (await instances.steps(probeEnv, operator, await standing(id))).steps.some(({ name }) => name === "b"));
  await scheduler.wait(300);
  // Two queries, each with seven attempts.
  let failing = 14;
  const asked = Recorder.prototype.standing;
  const spy = vi.spyOn(Recorder.prototype, "standing").mockImplementation(function (this: Recorder, instanceId) {
    if (instanceId === id && failing-- > 0) throw new Error("Network connection lost.");
    return asked.call(this, instanceId);
  });
  onTestFinished(() => spy.mockRestore());
  await resume(id);
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(failing).toBeLessThan(0);
  expect(its.log).toEqual(["a", "b"]);
});
