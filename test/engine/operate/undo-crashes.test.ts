import { env } from "cloudflare:workers";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import {
  behave,
  dieAt,
  expireLeases,
  fresh,
  happened,
  keeperRound,
  operator,
  pauseAt,
  probeEnv,
  reaches,
  rows,
  start,
  until,
} from "../harness.ts";
import { entries, takenBack, undone, undoRows } from "./undoing.ts";

describe("W18 a retry after an undo", () => {
  it.each(["keyed", "natural", "lookup", "once"] as const)(
    "a retry after an undo repeats an undone %s effect once under a new key, and no effect that was not undone",
    async (kind) => {
      const name = fresh();
      const { instanceId } = await start(name, [
        { do: kind, name: "act", undo: "natural" },
        { do: "natural", name: "stays" },
        { do: "commit", name: "rows", undo: "rows" },
      ]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      await undone(instanceId);
      await instances.act(probeEnv, operator, "retry", instanceId, { reason: "on again", from: "rows" });
      expect(await reaches(instanceId, "complete", "errored")).toBe("complete");

      const effects = await happened(`${name}/act`);
      // A lookup by subject finds the first effect: whether an upstream returns undone effects is its decision.
      expect(new Set(effects.map(({ key }) => key)).size).toBe(2);
      expect(effects).toHaveLength(2);
      expect(await happened(`${name}/stays`)).toHaveLength(1);
      expect(await rows("SELECT id FROM probe_rows WHERE kind = 'commit' AND name = ?1", `${name}/rows`)).toHaveLength(2);
      expect((await instances.get(probeEnv, operator, instanceId)).undo).toBeNull();

      // A second undo undoes the second generation of the effect, and nothing else.
      await undone(instanceId);
      expect(await takenBack(name)).toEqual(effects.map(({ id }) => `act/undo ${id}`));
      expect((await entries(instanceId)).filter(({ step }) => step === "act")).toEqual([
        { step: "act", generation: 1, state: "superseded" },
        { step: "act", generation: 2, state: "superseded" },
        { step: "act", generation: 3, state: "failed" },
      ]);
    },
  );
});

describe("W19 a crash in an undo", () => {
  it.each([
    { undo: "keyed", point: "W03 effect done, not recorded" },
    { undo: "keyed", point: "W05 recorded, step result lost" },
    { undo: "natural", point: "W05 recorded, step result lost" },
    { undo: "lookup", point: "W01 claimed, effect not started" },
    { undo: "lookup", point: "W03 effect done, not recorded" },
    { undo: "lookup", point: "W05 recorded, step result lost" },
    { undo: "once", point: "W05 recorded, step result lost" },
  ] as const)(
    "an undo with a handler of class $undo that dies at $point sends one undo and writes its rows once",
    async ({ undo, point }) => {
      const name = fresh();
      const { instanceId } = await start(name, [{ do: "natural", name: "act", undo }]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      const { died } = dieAt(point, instanceId);
      await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
      await until(async () => died(), Boolean);
      expect(died()).toBe(true);
      await expireLeases(instanceId);
      expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
      expect(await takenBack(name)).toHaveLength(1);
      expect(await undoRows(name)).toHaveLength(1);
    },
  );

  it("an undo that was accepted and not begun is begun by the keeper", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", undo: "keyed" }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    dieAt("undo committed, not applied");
    await expect(instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" })).rejects.toThrow("Died");
    expect(await takenBack(name)).toEqual([]);
    await keeperRound();
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(await takenBack(name)).toHaveLength(1);
  });

  it("an undo without a recorded end is found by the keeper and ends as undone", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", undo: "keyed" }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    await env.DB.prepare("UPDATE millrace_instances SET status = 'running', check_at = 0 WHERE id = ?1").bind(instanceId).run();
    const ended = async () => {
      await keeperRound();
      return reaches(instanceId, "terminated", "complete");
    };
    expect(await ended()).toBe("terminated");
  });

  it("a failing undo makes the instance errored, completed undo steps are not repeated, and a retry continues the undo", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "keyed", retries: 0 },
      { do: "keyed", name: "last", undo: "keyed", retries: 0 },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const [{ id } = { id: "" }] = await happened(`${name}/first`);
    await behave({ subject: `${name}/first/undo ${id}`, mode: "refuse", status: 400, times: 1 });
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "errored", "terminated")).toBe("errored");
    expect(await instances.get(probeEnv, operator, instanceId)).toMatchObject({ error: { step: "undo first" }, undo: expect.any(String) });
    await expect(instances.act(probeEnv, operator, "undo", instanceId, { reason: "again" })).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("retry the instance"),
    });

    expect(await instances.plan(probeEnv, operator, "retry", instanceId, {})).toEqual({
      from: "undo first",
      consequence: "The undo continues at the step that failed.",
      note: null,
      refused: null,
      effects: [{ step: "first", item: "", verdict: "undone" }],
    });
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "repaired" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["last", "first"]);
    expect(await happened(`${name}/first`)).toHaveLength(1);
  });

  it("a restart of an undo's platform instance undoes nothing twice", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "natural" },
      { do: "keyed", name: "last", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const paused = pauseAt("W06 about to record", instanceId);
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    await until(async () => paused.reached(), Boolean);
    paused.release();
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    await env.DB.prepare("UPDATE millrace_instances SET status = 'errored', error = NULL WHERE id = ?1").bind(instanceId).run();
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "to be sure" });
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    expect(await takenBack(name)).toHaveLength(2);
    expect(await undoRows(name)).toHaveLength(2);
  });

  it("an undo step of class once with an unknown outcome waits for an operator, and continues with the answer", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "keyed" },
      { do: "keyed", name: "mail", undo: "once" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const [{ id } = { id: "" }] = await happened(`${name}/mail`);
    await behave({ subject: `${name}/mail/undo ${id}`, mode: "drop", times: 1 });
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "in_doubt", "terminated", "errored")).toBe("in_doubt");
    const doubt = (await instances.effects(probeEnv, operator, instanceId)).find(({ state }) => state === "in_doubt");
    expect(doubt).toMatchObject({ step: "undo mail", class: "once" });
    await effects.resolve(probeEnv, operator, doubt?.key ?? "", { verb: "confirm", output: "seen" }, "they got it");
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["mail", "first"]);
    expect(await undoRows(name)).toHaveLength(2);
  });
});
