import { defineStep, upstreamRefused } from "millrace";
import { retryInstance } from "millrace/operate";
import { describe, expect, it } from "vitest";
import {
  behave,
  dieAt,
  expireLeases,
  failAt,
  fresh,
  happened,
  operator,
  probeEnv,
  reaches,
  restarted,
  rows,
  start,
  until,
} from "../harness.ts";
import { platformReaches, runLab } from "../lab.ts";
import { entry } from "./entry.ts";

describe("A step whose class a deployment has changed", () => {
  it.each(["refused", "lost"])("from lookup to natural, after an attempt that was %s, is recorded all the same", async (how) => {
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
    await retryInstance(probeEnv, operator, instanceId, { reason: "another store" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await entry(instanceId)).at(-1)).toMatchObject({ state: "done", output: '"put"' });
  });
});

describe("A guarded effect", () => {
  it("W01 claimed, effect not started: taken over at the next epoch, one effect", async () => {
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
    { do: "keyed" as const, why: "the same key goes out again" },
    { do: "lookup" as const, why: "the upstream is asked first" },
  ])("of class $do", ({ do: kind, why }) => {
    it(`W02 request sent, no reply: ${why}, one effect`, async () => {
      const name = fresh();
      await behave({ subject: `${name}/act`, mode: "drop", times: 1 });
      const { instanceId } = await start(name, [{ do: kind, name: "act" }]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      const effects = await happened(`${name}/act`);
      expect(effects).toHaveLength(1);
      expect(await entry(instanceId)).toMatchObject([{ output: JSON.stringify(effects[0]?.id) }]);
    });

    it("W03 reply seen, not recorded: one effect, and the recorded output is the upstream's", async () => {
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

    it("W04 the record is committed, but its caller sees an error: read back by its token, no second effect, no false failure", async () => {
      const name = fresh();
      const { died } = failAt("W04 committed, caller saw an error", new Error("Network connection lost."), name);
      const { instanceId } = await start(name, [{ do: kind, name: "act", retries: 0 }]);
      expect(await reaches(instanceId, "complete", "errored", "in_doubt")).toBe("complete");
      expect(died()).toBe(true);
      expect(await effects(name)).toHaveLength(1);
      expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 1 }]);
    });

    it("W05 recorded, but the platform loses the step's result: the stored output is answered, no new effect", async () => {
      const name = fresh();
      const { died } = dieAt("W05 recorded, step result lost", name);
      const { instanceId } = await start(name, [{ do: kind, name: "act" }]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      expect(died()).toBe(true);
      expect(await effects(name)).toHaveLength(1);
    });

    it("W15 the whole instance is restarted: the inbox answers, no new effect", async () => {
      const name = fresh();
      const { instanceId } = await start(name, [{ do: kind, name: "act", emit: true }]);
      await reaches(instanceId, "complete");
      expect(await restarted(instanceId)).toBe("complete");
      expect(await effects(name)).toHaveLength(1);
      expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 1 }]);
    });
  });
});
