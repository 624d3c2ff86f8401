import { createExecutionContext } from "cloudflare:test";
import { engineRoutes } from "millrace/http";
import { approvals, effects, instances, tokens } from "millrace/operate";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { EventReader } from "../../event-source.ts";
import { mode } from "../../probe/mode.ts";
import { app } from "../../probe/worker.ts";
import { operator, probeEnv, reaches } from "../harness.ts";
import { comes, kept, play, scene } from "../operate/scene.ts";

const api = engineRoutes(app);

/** Follows the stream of an instance from its first event. */
async function follow(id: string): Promise<EventReader> {
  const token = await tokens.mint(probeEnv, { tenantId: operator.tenantId, actor: "tess", scopes: ["read"] });
  const request = new Request(`http://localhost/v1/instances/${id}/stream`, { headers: { authorization: `Bearer ${token}` } });
  return new EventReader(await api.fetch(request, probeEnv, createExecutionContext()));
}

type Told = EventReader["told"][number];

const ends = (told: readonly Told[]) =>
  told.filter(({ data }) => data.type === "attempt_completed").map(({ data }) => `${data.step}: ${data.state ?? "done"}`);

const ended = (step: string) => (one: Told) => one.data.type === "attempt_completed" && one.data.step === step;

/** Compares the step ends in the live stream, and in a stream opened after the end. */
async function expectTold(id: string, stream: EventReader, said: readonly string[]): Promise<void> {
  await stream.until(({ event }) => event === "end");
  expect(ends(stream.told)).toEqual(said);
  expect(ends(await (await follow(id)).all())).toEqual(said);
}

describe.each(["platform", "inline"] as const)("Step outcomes (%s)", (steps) => {
  beforeEach(() => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
  });

  it("the stream of an instance reports a step in doubt after the end of its attempt, also when it is in doubt twice", async () => {
    const its = scene();
    its.state.lose = true;
    const id = await play(its, (step) => its.act(step, "a", "once"));
    const stream = await follow(id);
    await stream.until(ended("a"));
    const doubted = async () => (await instances.effects(probeEnv, operator, id)).findLast(({ state }) => state === "in_doubt")?.key;
    await comes(async () => (await doubted()) !== undefined);
    await effects.resolve(probeEnv, operator, (await doubted()) ?? "", { verb: "retry_anyway" }, "again");
    await stream.until(ended("a · after doubt 1"));
    its.state.lose = false;
    await effects.resolve(probeEnv, operator, (await doubted()) ?? "", { verb: "retry_anyway" }, "once more");
    await expectTold(id, stream, ["a: in_doubt", "a · after doubt 1: in_doubt", "a · after doubt 2: done"]);
  });

  it("the stream of an instance reports a step that cannot begin while the instance is paused", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a", "natural", "slow");
      await its.act(step, "b");
    });
    const stream = await follow(id);
    await comes(() => its.log.includes("a"));
    await instances.act(probeEnv, operator, "pause", id, { reason: "let me look" });
    its.state.go = true;
    await stream.until(ended("b"));
    await instances.act(probeEnv, operator, "resume", id, { reason: "on again" });
    await expectTold(id, stream, ["a: done", "b: paused", "b · after pause 1: done"]);
  });

  it("the stream of a cancelled instance reports the undone steps, and no end of a step that did not begin", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await step.read("look", async () => 1);
      await its.act(step, "a", "natural", "slow");
      await its.act(step, "b");
    });
    const stream = await follow(id);
    await comes(() => its.log.includes("a"));
    const cancelled = instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    await comes(async () => (await instances.get(probeEnv, operator, id)).undo_action !== null);
    its.state.go = true;
    await cancelled;
    await kept(id, "terminated", "errored");
    await stream.until(({ event }) => event === "end");
    const said = ends(stream.told);
    expect(said).toEqual(expect.arrayContaining(["look: done", "a: done", "undo a: done"]));
    expect(said).not.toContain("b: done");
    expect(ends(await (await follow(id)).all())).not.toContain("b: done");
  });

  it("the stream of an instance reports a step that waits for the answer to a question", async () => {
    const its = scene();
    const id = await play(its, (step) => step.approve("asks", { question: "Really?", timeout: "1 hour" }));
    const stream = await follow(id);
    const asked = await stream.until(({ data }) => data.type === "wait_started");
    await approvals.decide(probeEnv, operator, asked.data.approval_id, "approve", "Yes.");
    await reaches(id, "complete");
    await expectTold(id, stream, ["asks: waiting"]);
  });
});
