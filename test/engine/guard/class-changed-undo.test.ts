import { defineStep } from "millrace";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { platformId } from "../../../packages/millrace/src/contract/ids.ts";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { expireLeases, keeperRound, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { LAB, platformReaches, runLab } from "../lab.ts";

const LOST = { retries: { limit: 0, delay: 10 } } as const;

describe("Undo after a deployment", () => {
  it("W20 an effect with a lost answer that changed from lookup to natural is in doubt, and undone once an operator confirms it", async () => {
    let sent = 0;
    const backs: string[] = [];
    const undo = defineStep<Done<null, string>, unknown>({ effect: "natural", run: async ({ input }) => backs.push(input.output) });
    const run = async (): Promise<string> => {
      sent++;
      throw new Error("The answer was lost.");
    };
    let now: "lookup" | "natural" = "lookup";
    const code = () => defineStep<null, string>({ effect: now, ...LOST, run, lookup: async () => "found", undo } as never);
    const { instanceId } = await runLab(({ step }) => step.effect("act", code(), null));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    now = "natural";
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "in_doubt", "terminated", "errored")).toBe("in_doubt");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    expect(effect?.error?.message).toContain('an attempt as "lookup" was cut off, and a deployment has since made the step "natural"');
    await effects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: "booking-7" }, "seen");
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect([sent, backs]).toEqual([1, ["booking-7"]]);
  });

  it("W21 an undo step that a deployment changed from once to natural is not repeated", async () => {
    const backs: string[] = [];
    let now: "once" | "natural" = "once";
    let lost = true;
    const undo = () =>
      defineStep<Done<null, string>, unknown>({
        effect: now,
        ...LOST,
        run: async ({ input }) => {
          backs.push(input.output);
          if (lost) throw Object.assign(new Error("Died."), { name: "SimulatedDeath" });
        },
      });
    const { instanceId } = await runLab(({ step }) =>
      step.effect("act", defineStep<null, string>({ effect: "natural", run: async () => "done", undo: undo() }), null),
    );
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const { action_id: actionId } = await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    await until(
      async () => backs.length,
      (count) => count > 0,
    );
    now = "natural";
    lost = false;
    await expireLeases(instanceId);
    await (await LAB.get(platformId(instanceId, actionId))).restart();
    expect(await reaches(instanceId, "in_doubt", "terminated")).toBe("in_doubt");
    expect(backs).toEqual(["done"]);
  });
});

describe("Instance row", () => {
  /** A run that is parked on an unknown outcome, with the status `running` in its row. */
  async function hidden() {
    const run = async () => Promise.reject(new Error("The answer was lost."));
    const { instanceId } = await runLab(({ step }) => step.effect("act", defineStep<null, string>({ effect: "once", ...LOST, run }), null));
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    await platformReaches(instanceId, "waiting", "running");
    await rows("UPDATE millrace_instances SET status = 'running' WHERE id = ?1", instanceId);
    return instanceId;
  }

  it("W17 the keeper restores the status `in_doubt` of an instance with an unknown outcome", async () => {
    const instanceId = await hidden();
    await keeperRound();
    expect(await statusOf(instanceId)).toBe("in_doubt");
  });

  it("W17 a replay that reaches an unknown outcome restores the status `in_doubt`", async () => {
    const instanceId = await hidden();
    await (await LAB.get(instanceId)).restart();
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
  });
});
