import { instances } from "millrace/operate";
import { Recorder } from "millrace/worker";
import { expect, it, onTestFinished, vi } from "vitest";
import { ProbeSignal } from "../../probe/messages.ts";
import { operator, probeEnv } from "../harness.ts";
import { held, LAB } from "../lab.ts";
import { comes, kept, play, scene } from "./scene.ts";

it("W23 a commit that was in transit when its replay died is not written after the undo has begun", async () => {
  const its = scene();
  const { record } = Recorder.prototype;
  const late = { isWritten: false, mayGo: false };
  const spy = vi.spyOn(Recorder.prototype, "record").mockImplementation(async function (this: Recorder, attempt, outcome) {
    if (attempt.key.instanceId !== id || attempt.key.step !== "late") return record.call(this, attempt, outcome);
    await held(() => late.mayGo);
    return record.call(this, attempt, outcome).finally(() => {
      late.isWritten = true;
    });
  });
  onTestFinished(() => spy.mockRestore());
  let isMade = false;
  const id: string = await play(its, (step) =>
    step.commit("late", () => {
      isMade = true;
      return { emit: [ProbeSignal.from({ about: its.name, value: "late" })] };
    }),
  );
  await comes(() => isMade);
  await (await LAB.get(id)).terminate();
  await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  late.mayGo = true;
  await comes(() => late.isWritten);
  expect(await instances.effects(probeEnv, operator, id)).toEqual([]);
});
