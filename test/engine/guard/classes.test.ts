import { defineStep, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { HEARTBEAT_MS } from "../../../packages/millrace/src/guard/claim.ts";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import {
  behave,
  dieAt,
  expireLeases,
  failAt,
  fresh,
  happened,
  operator,
  pauseAt,
  probeEnv,
  reaches,
  restarted,
  rows,
  start,
  statusOf,
  until,
} from "../harness.ts";
import { errorOf, platformReaches, refuse, runLab } from "../lab.ts";
import { entry } from "./entry.ts";

describe("Class changes", () => {
  it.each([
    { how: "refused", status: "complete", state: "done" },
    { how: "lost", status: "in_doubt", state: "in_doubt" },
  ])("a step that a deployment changed from lookup to natural is $state after an attempt that was $how", async ({ how, status, state }) => {
    const attempts = { retries: { limit: 0, delay: 10 } } as const;
    const asked = defineStep({
      ...attempts,
      effect: "lookup",
      run: async (): Promise<string> => {
        throw how === "refused" ? upstreamRefused("not now") : new Error("The connection was lost.");
      },
      lookup: async () => undefined,
    });
    const put = defineStep({ ...attempts, effect: "natural", run: async () => "put" });
    let deployed: typeof asked | typeof put = asked;
    const { instanceId } = await runLab(({ step }) => step.effect("act", deployed, undefined));
    expect(await platformReaches(instanceId, "errored")).toBe("errored");
    await reaches(instanceId, "errored");
    deployed = put;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "another store" });
    expect(await reaches(instanceId, "complete", "errored", "in_doubt")).toBe(status);
    expect((await entry(instanceId)).at(-1)).toMatchObject({ state, output: state === "done" ? '"put"' : null });
  });
});

describe("Guarded effects", () => {
  it("W01 a claimed effect of a process that died before the start is claimed again at the next epoch, and happens once", async () => {
    const name = fresh();
    const { died } = dieAt("W01 claimed, effect not started", name);
    const { instanceId } = await start(name, [{ do: "lookup", name: "ship" }]);
    await until(async () => died(), Boolean);
    await expireLeases(instanceId);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await happened(`${name}/ship`)).toHaveLength(1);
    expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 2 }]);
  });

  describe.each([
    { do: "keyed" as const, why: "the request is repeated with the same key" },
    { do: "lookup" as const, why: "the upstream is queried first" },
  ])("an effect of class $do", ({ do: kind, why }) => {
    it(`W02 an effect with a lost reply happens once: ${why}`, async () => {
      const name = fresh();
      await behave({ subject: `${name}/act`, mode: "drop", times: 1 });
      const { instanceId } = await start(name, [{ do: kind, name: "act" }]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      const effects = await happened(`${name}/act`);
      expect(effects).toHaveLength(1);
      expect(await entry(instanceId)).toMatchObject([{ output: JSON.stringify(effects[0]?.id) }]);
    });

    it("W03 an effect with an unrecorded reply happens once, and its recorded output is the upstream's", async () => {
      const name = fresh();
      const { died } = dieAt("W03 effect done, not recorded", name);
      const { instanceId } = await start(name, [{ do: kind, name: "act" }]);
      await until(async () => died(), Boolean);
      await expireLeases(instanceId);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      const effects = await happened(`${name}/act`);
      expect(effects).toHaveLength(1);
      expect(await entry(instanceId)).toMatchObject([{ state: "done", output: JSON.stringify(effects[0]?.id) }]);
    });
  });

  describe.each(["keyed", "lookup", "once", "commit"] as const)("of class %s", (kind) => {
    const effects = (name: string) =>
      kind === "commit" ? rows("SELECT id FROM probe_rows WHERE name = ?1", `${name}/act`) : happened(`${name}/act`);

    it("W04 an outcome that was committed despite a database error is found by its token: the effect is not repeated", async () => {
      const name = fresh();
      const { died } = failAt("W04 committed, caller saw an error", new Error("Network connection lost."), name);
      const { instanceId } = await start(name, [{ do: kind, name: "act", retries: 0 }]);
      expect(await reaches(instanceId, "complete", "errored", "in_doubt")).toBe("complete");
      expect(died()).toBe(true);
      expect(await effects(name)).toHaveLength(1);
      expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 1 }]);
    });

    it("W05 a recorded effect is not repeated when the platform loses the step's result: the stored output is returned", async () => {
      const name = fresh();
      const { died } = dieAt("W05 recorded, step result lost", name);
      const { instanceId } = await start(name, [{ do: kind, name: "act" }]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      expect(died()).toBe(true);
      expect(await effects(name)).toHaveLength(1);
    });

    it("W15 a recorded effect is not repeated when its instance is restarted: the step returns the recorded outcome", async () => {
      const name = fresh();
      const { instanceId } = await start(name, [{ do: kind, name: "act", emit: true }]);
      await reaches(instanceId, "complete");
      expect(await restarted(instanceId)).toBe("complete");
      expect(await effects(name)).toHaveLength(1);
      expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 1 }]);
    });
  });
});

it("W20 a refused lookup reveals nothing about the effect: its outcome remains unknown, and an undo repeats the lookup", async () => {
  const booked: string[] = [];
  const back: string[] = [];
  let refuses = true;
  const booking = defineStep({
    effect: "lookup",
    retries: { limit: 1, delay: 10 },
    lookup: async () => (refuses ? refuse() : booked[0]),
    run: async (): Promise<string> => {
      booked.push("booking 1");
      throw new Error("The answer was lost");
    },
    undo: defineStep<Done<null, string>, unknown>({ effect: "natural", run: async ({ input }) => back.push(input.output) }),
  });
  const { instanceId } = await runLab(({ step }) => step.effect("book", booking, null));
  expect(await reaches(instanceId, "errored")).toBe("errored");
  refuses = false;
  await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
  expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
  expect([booked, back]).toEqual([["booking 1"], ["booking 1"]]);
});

it.each(["lookup", "once"] as const)(
  "W06 an attempt that pauses after its claim and resumes after a takeover does not act (%s)",
  async (effect) => {
    const name = fresh("lab");
    let acts = 0;
    const definition = { effect, retries: { limit: 0, delay: 10 }, run: async () => ++acts, lookup: async () => undefined } as const;
    const paused = pauseAt("W01 claimed, effect not started", name);
    const { instanceId } = await runLab(({ step }) => step.effect("act", defineStep<null, number>(definition), null), { name });
    await until(async () => paused.reached(), Boolean);
    // As after another attempt that claimed the key, and a report that nothing had happened.
    await probeEnv.DB.prepare("UPDATE millrace_inbox SET token = 'another', epoch = epoch + 1 WHERE instance_id = ?1")
      .bind(instanceId)
      .run();
    await scheduler.wait(HEARTBEAT_MS + 500);
    paused.release();
    await until(
      () => statusOf(instanceId),
      (is) => is === "errored",
    );
    expect([acts, (await errorOf(instanceId))?.code]).toEqual([0, "lease_lost"]);
  },
  20_000,
);
