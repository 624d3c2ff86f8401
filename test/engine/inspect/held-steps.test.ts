import { instances } from "millrace/operate";
import { describe, expect, it, onTestFinished } from "vitest";
import { mode } from "../../probe/mode.ts";
import { asking } from "../asking.ts";
import { operator, probeEnv } from "../harness.ts";
import { comes, kept, play, scene } from "../operate/scene.ts";

const modes = ["platform", "inline"] as const;

/** A run in its second step, and a function that lists the states of its steps. */
async function inTheMiddle(steps: (typeof modes)[number]) {
  mode.steps = steps;
  onTestFinished(() => {
    mode.steps = "platform";
  });
  const { get } = await asking(["read"], operator.tenantId);
  const its = scene();
  const id = await play(its, async (step) => {
    await step.read("look", async () => 1);
    await its.act(step, "a", "natural", "slow");
    await its.act(step, "b", "natural");
  });
  await comes(() => its.log.includes("a"));
  const told = async () => {
    const { items } = (await get(`/v1/instances/${id}/steps`)).body;
    return items.map(({ name, state }: { name: string; state: string }) => `${name}: ${state}`);
  };
  return { its, id, told };
}

describe.each(modes)("Cancelled runs (%s)", (steps) => {
  it("a cancelled run shows a step that it reached and never began as stopped, also after its undo", async () => {
    const { its, id, told } = await inTheMiddle(steps);
    await instances.act(probeEnv, operator, "cancel", id, { undo: false, reason: "called off" });
    its.state.go = true;
    await comes(async () => (await told()).length === 3);
    expect(await told()).toEqual(["look: complete", "a: complete", "b: stopped"]);
    await instances.act(probeEnv, operator, "undo", id, { reason: "take it back" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await comes(async () => (await told()).includes("undo a: complete"));
    expect(await told()).toEqual(expect.arrayContaining(["look: complete", "a: complete", "b: stopped", "undo a: complete"]));
    expect(its.log).toEqual(["a", "undo a(its a)"]);
  });

  it("a run that is undone by its cancel shows a step that never began as stopped", async () => {
    const { its, id, told } = await inTheMiddle(steps);
    const cancelled = instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    await comes(async () => (await instances.get(probeEnv, operator, id)).undo !== null);
    its.state.go = true;
    await comes(async () => (await told()).length === 3);
    expect(await told()).toEqual(["look: complete", "a: complete", "b: stopped"]);
    await cancelled;
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await comes(async () => (await told()).includes("undo a: complete"));
    expect((await told()).slice(0, 3)).toEqual(["look: complete", "a: complete", "b: stopped"]);
    expect(await told()).not.toContain("look: stopped");
    expect(its.log).toEqual(["a", "undo a(its a)"]);
  });
});
