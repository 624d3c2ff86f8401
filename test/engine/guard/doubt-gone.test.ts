import { effects as engineEffects, instances } from "millrace/operate";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { doubtEventType } from "../../../packages/millrace/src/guard/doubt.ts";
import { Platform } from "../../../packages/millrace/src/workflow/platform.ts";
import { happened, keeperRound, operator, probeEnv, probeOutput, reaches, rows, until } from "../harness.ts";
import { lookAgain, noted, walk } from "../reconcile/walking.ts";
import { doubtful, followUps } from "./doubtful.ts";

/** An unknown outcome with a deleted row. The platform still waits for its answer. */
async function gone() {
  const waits = vi.spyOn(Platform.prototype, "waitFor");
  onTestFinished(() => waits.mockRestore());
  const one = await doubtful();
  await until(
    async () => waits.mock.calls.some(([, type]) => type === doubtEventType(one.key)),
    (waiting) => waiting,
  );
  await rows("DELETE FROM millrace_inbox WHERE instance_id = ?1", one.instanceId);
  return one;
}

/** Replays the code on the platform, as after a crash or a deployment. */
async function passAnew(instanceId: string): Promise<void> {
  const instance = await probeEnv.PROBE.get(instanceId);
  await instance.pause();
  await instance.resume();
}

const effects = (instanceId: string) => instances.effects(probeEnv, operator, instanceId);

describe("Deleted unknown outcomes", () => {
  it("W17 the next replay recreates the deleted row of an unknown outcome: nothing is sent again, and an operator answers it", async () => {
    const { name, instanceId, key } = await gone();
    await passAnew(instanceId);
    const [effect] = await until(
      () => effects(instanceId),
      (found) => found.length > 0,
    );
    expect(effect).toMatchObject({ key, class: "once", state: "in_doubt", input: JSON.stringify({ subject: `${name}/mail` }) });
    expect(effect?.error).toMatchObject({ code: "in_doubt", message: expect.stringContaining("its record is missing") });
    expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
    await engineEffects.resolve(probeEnv, operator, key, { verb: "confirm", output: "mail-77" }, "seen in the sent folder");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await probeOutput(instanceId)).toEqual({ outputs: ["mail-77", "committed"] });
    expect(await happened(`${name}/mail`)).toHaveLength(1);
    expect(
      await until(
        () => followUps(name),
        (found) => found.length === 2,
      ),
    ).toHaveLength(2);
  });

  it("W17 the reconcile scan wakes a run whose unknown outcome has no row; the run continues only after an operator's answer", async () => {
    const { name, instanceId, key } = await gone();
    await walk();
    await lookAgain(instanceId);
    await until(
      () => engineEffects.list(probeEnv, operator, { state: "in_doubt", limit: 200 }),
      (found) => found.items.some((one) => one.key === key),
    );
    await lookAgain(instanceId);
    expect(await noted(instanceId)).toMatchObject([{ kind: "in_doubt_without_doubt", state: "repaired", repairs: 1 }]);
    expect(await rows("SELECT status FROM millrace_instances WHERE id = ?1", instanceId)).toEqual([{ status: "in_doubt" }]);
    expect(await happened(`${name}/mail`)).toHaveLength(1);
    await engineEffects.resolve(probeEnv, operator, key, { verb: "reject" }, "not in the sent folder");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await happened(`${name}/mail`)).toHaveLength(2);
  });

  it("W17 an instance in doubt without a row and without a platform run ends as errored, with instructions for an operator", async () => {
    const { name, instanceId } = await gone();
    await (await probeEnv.PROBE.get(instanceId)).terminate();
    await rows("UPDATE millrace_instances SET workflow = 'lab', check_at = 1 WHERE id = ?1", instanceId);
    await keeperRound();
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "{}")).toMatchObject({ code: "in_doubt", message: expect.stringContaining("receiving side") });
    expect(await happened(`${name}/mail`)).toHaveLength(1);
  });
});
