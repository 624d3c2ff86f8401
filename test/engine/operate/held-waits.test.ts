import type { Steps } from "millrace";
import { actOn, decideApproval, getInstance, listApprovals, stepsOf } from "millrace/operate";
import { describe, expect, it, vi } from "vitest";
import { labPasses } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { event, keeperRound, operator, probeEnv, reaches } from "../harness.ts";
import { LAB, platformOf } from "../lab.ts";
import { comes, kept, play, type Scene, scene } from "./scene.ts";

const pause = (id: string) => actOn(probeEnv, operator, "pause", id, { reason: "the shop asks us to wait" });
const resume = (id: string) => actOn(probeEnv, operator, "resume", id, { reason: "on again" });
const standing = (id: string) => getInstance(probeEnv, operator, id);
const asked = async (id: string) => (await listApprovals(probeEnv, operator, { instance: id })).items;
const says = (of: Scene, value = "news") => probeEnv.PROBE_EVENTS.send(event("probe.signal", of.name, { about: of.name, value }));
const hears = (of: Scene, step: Steps, name: string) => step.waitFor(name as "first", ProbeSignal, { subject: of.name });

/** The steps of a run, each with its state. */
const states = async (id: string) =>
  (await stepsOf(probeEnv, operator, await standing(id))).steps.map(({ name, state }) => `${name}: ${state}`);

async function staysPaused(id: string): Promise<void> {
  for (let round = 0; round < 3; round++) await keeperRound();
  await scheduler.wait(600);
  expect(await standing(id)).toMatchObject({ status: "paused", run: 1 });
}

async function ends(id: string): Promise<void> {
  await resume(id);
  expect(await kept(id, "complete", "errored")).toBe("complete");
}

describe("A run that receives its event while it is paused in a wait", () => {
  async function pausedIn(code: (step: Steps, of: Scene) => Promise<unknown>): Promise<{ its: Scene; id: string }> {
    const its = scene();
    const id = await play(its, async (step) => {
      await hears(its, step, "first");
      its.log.push("heard");
      await code(step, its);
    });
    await reaches(id, "waiting");
    await pause(id);
    await says(its);
    await staysPaused(id);
    expect(its.log).toEqual([]);
    return { its, id };
  }

  it("asks no question before it is resumed", async () => {
    const { id } = await pausedIn((step) => step.approve("may it", { question: "May it?" }));
    expect(await asked(id)).toEqual([]);
    expect(await states(id)).toEqual(["first: paused", "first: complete", "first · paused 1: waiting"]);
    await resume(id);
    await reaches(id, "waiting");
    await comes(async () => (await asked(id)).length === 1);
    await decideApproval(probeEnv, operator, (await asked(id))[0]?.id ?? "", "approve", "yes");
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect((await states(id)).slice(0, 3)).toEqual(["first: complete", "first: complete", "first · paused 1: complete"]);
  });

  it("begins no sleep before it is resumed", async () => {
    const { its, id } = await pausedIn(async (step, { log }) => {
      await step.sleep("rest", 1);
      log.push("slept");
    });
    await ends(id);
    expect(its.log).toEqual(["heard", "slept"]);
  });

  it("does not end before it is resumed, though its code has no further step", async () => {
    const { its, id } = await pausedIn(() => Promise.resolve());
    await ends(id);
    expect(its.log).toEqual(["heard"]);
  });

  it("is undone by a cancel, and its code gets no event", async () => {
    const { its, id } = await pausedIn((step, of) => of.act(step, "a"));
    await actOn(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    // The replay of the undo executes the code once more.
    expect(its.log.filter((line) => line !== "heard")).toEqual([]);
  });

  it("remains paused when the platform replays it, and when it is paused a second time", async () => {
    const { its, id } = await pausedIn((step, of) => of.act(step, "a"));
    const before = labPasses.get(id) ?? 0;
    const instance = await LAB.get(id);
    await instance.pause().catch(() => undefined);
    await instance.resume().catch(() => undefined);
    await comes(async () => (labPasses.get(id) ?? 0) > before || (await platformOf(id)).status === "running");
    await staysPaused(id);
    await ends(id);
    expect(its.log.filter((line) => line === "a")).toEqual(["a"]);
  });
});

describe("A run that is paused while an effect is under way", () => {
  async function pausedBefore(code: (step: Steps, of: Scene) => Promise<unknown>): Promise<{ its: Scene; id: string }> {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "once", "slow");
      await code(step, its);
    });
    await comes(() => its.log.includes("a"));
    await pause(id);
    its.state.go = true;
    await comes(async () => (await states(id)).some((one) => one.includes("· paused")));
    await staysPaused(id);
    return { its, id };
  }

  it("waits for no event and asks no question before it is resumed: their timeouts start then", async () => {
    const { its, id } = await pausedBefore(async (step, of) => {
      await hears(of, step, "first");
      await step.approve("may it", { question: "May it?", timeout: 50, otherwise: "approve" });
    });
    expect(await states(id)).toEqual(["a: complete", "first: paused", "first · paused 1: waiting"]);
    await resume(id);
    await reaches(id, "waiting");
    await says(its);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect((await states(id)).slice(0, 4)).toEqual([
      "a: complete",
      "first: paused",
      "first · paused 1: complete",
      "first · after pause 1: complete",
    ]);
  });

  it("asks a question in the next step only once it is resumed", async () => {
    const { id } = await pausedBefore((step) => step.approve("may it", { question: "May it?" }));
    expect(await asked(id)).toEqual([]);
    await resume(id);
    await comes(async () => (await asked(id)).length === 1);
    await decideApproval(probeEnv, operator, (await asked(id))[0]?.id ?? "", "reject", "no");
    expect(await kept(id, "complete", "errored")).toBe("complete");
  });

  it("sleeps only once it is resumed", async () => {
    const { id } = await pausedBefore((step) => step.sleep("rest", 1));
    expect(await states(id)).toEqual(["a: complete", "rest · paused 1: waiting"]);
    await ends(id);
  });

  it("ends, where that was its last step: no step remains to hold", async () => {
    const its = scene();
    const id = await play(its, (step) => its.act(step, "a", "once", "slow"));
    await comes(() => its.log.includes("a"));
    await pause(id);
    its.state.go = true;
    expect(await kept(id, "complete", "errored")).toBe("complete");
  });
});

it("A question can be answered while its run is paused: the run continues with the answer once it is resumed", async () => {
  const its = scene();
  const id = await play(its, async (step) => its.log.push(String((await step.approve("may it", { question: "May it?" })).approved)));
  await comes(async () => (await asked(id)).length === 1);
  await pause(id);
  await decideApproval(probeEnv, operator, (await asked(id))[0]?.id ?? "", "approve", "yes");
  await staysPaused(id);
  expect(its.log).toEqual([]);
  await ends(id);
  expect(its.log).toEqual(["true"]);
});

it("A wait and the effect after it share one query, which detects a pause before either", async () => {
  const its = scene();
  const id = await play(its, async (step) => {
    await hears(its, step, "first");
    await its.act(step, "a");
    await its.act(step, "b");
  });
  await reaches(id, "waiting");
  await scheduler.wait(300);
  const looks = vi.spyOn((await import("millrace/worker")).Recorder.prototype, "standing");
  await says(its);
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(looks.mock.calls.filter(([asked]) => asked === id)).toHaveLength(1);
  looks.mockRestore();
});
