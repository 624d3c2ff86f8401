import type { Steps } from "millrace";
import { approvals, instances } from "millrace/operate";
import { describe, expect, it, vi } from "vitest";
import { labPasses } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { event, keeperRound, operator, probeEnv, reaches } from "../harness.ts";
import { LAB, platformOf } from "../lab.ts";
import { comes, kept, play, type Scene, scene } from "./scene.ts";

const pause = (id: string) => instances.act(probeEnv, operator, "pause", id, { reason: "the shop asks us to wait" });
const resume = (id: string) => instances.act(probeEnv, operator, "resume", id, { reason: "on again" });
const standing = (id: string) => instances.get(probeEnv, operator, id);
const asked = async (id: string) => (await approvals.list(probeEnv, operator, { instance: id })).items;
const says = (of: Scene, value = "news") => probeEnv.PROBE_EVENTS.send(event("probe.signal", of.name, { about: of.name, value }));
const hears = (of: Scene, step: Steps, name: string) => step.waitFor(name as "first", ProbeSignal, { subject: of.name });

/** The steps of a run with their states. */
const states = async (id: string) =>
  (await instances.steps(probeEnv, operator, await standing(id))).steps.map(({ name, state }) => `${name}: ${state}`);

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

  it("a run that is paused in a wait and receives its event asks its next question only after the resume", async () => {
    const { id } = await pausedIn((step) => step.approve("may it", { question: "May it?" }));
    expect(await asked(id)).toEqual([]);
    expect(await states(id)).toEqual(["first: paused", "first: complete", "first · paused 1: waiting"]);
    await resume(id);
    await reaches(id, "waiting");
    await comes(async () => (await asked(id)).length === 1);
    await approvals.decide(probeEnv, operator, (await asked(id))[0]?.id ?? "", "approve", "yes");
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect((await states(id)).slice(0, 3)).toEqual(["first: complete", "first: complete", "first · paused 1: complete"]);
  });

  it("a run that is paused in a wait and receives its event begins its next sleep only after the resume", async () => {
    const { its, id } = await pausedIn(async (step, { log }) => {
      await step.sleep("rest", 1);
      log.push("slept");
    });
    await ends(id);
    expect(its.log).toEqual(["heard", "slept"]);
  });

  it("a run that is paused in a wait and receives its event ends only after the resume, though its code has no further step", async () => {
    const { its, id } = await pausedIn(() => Promise.resolve());
    await ends(id);
    expect(its.log).toEqual(["heard"]);
  });

  it("a cancel of a run that is paused in a wait undoes it, and its code does not get the event", async () => {
    const { its, id } = await pausedIn((step, of) => of.act(step, "a"));
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    // The replay of the undo executes the workflow code again.
    expect(its.log.filter((line) => line !== "heard")).toEqual([]);
  });

  it("a run that is paused in a wait remains paused when the platform replays it, and after a second pause", async () => {
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

describe("A run that is paused while an effect is running", () => {
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

  it("a run that is paused during an effect begins its next wait and question after the resume, and their timeouts start then", async () => {
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

  it("a run that is paused during an effect asks its next question only after the resume", async () => {
    const { id } = await pausedBefore((step) => step.approve("may it", { question: "May it?" }));
    expect(await asked(id)).toEqual([]);
    await resume(id);
    await comes(async () => (await asked(id)).length === 1);
    await approvals.decide(probeEnv, operator, (await asked(id))[0]?.id ?? "", "reject", "no");
    expect(await kept(id, "complete", "errored")).toBe("complete");
  });

  it("a run that is paused during an effect begins its next sleep only after the resume", async () => {
    const { id } = await pausedBefore((step) => step.sleep("rest", 1));
    expect(await states(id)).toEqual(["a: complete", "rest · paused 1: waiting"]);
    await ends(id);
  });

  it("a run that is paused during its last step completes, because no step remains to hold", async () => {
    const its = scene();
    const id = await play(its, (step) => its.act(step, "a", "once", "slow"));
    await comes(() => its.log.includes("a"));
    await pause(id);
    its.state.go = true;
    expect(await kept(id, "complete", "errored")).toBe("complete");
  });
});

it("a question can be answered while its run is paused; the run continues with the answer after the resume", async () => {
  const its = scene();
  const id = await play(its, async (step) => its.log.push(String((await step.approve("may it", { question: "May it?" })).approved)));
  await comes(async () => (await asked(id)).length === 1);
  await pause(id);
  await approvals.decide(probeEnv, operator, (await asked(id))[0]?.id ?? "", "approve", "yes");
  await staysPaused(id);
  expect(its.log).toEqual([]);
  await ends(id);
  expect(its.log).toEqual(["true"]);
});

it("a run makes one query to detect a pause before a wait and before the effect after that wait", async () => {
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
