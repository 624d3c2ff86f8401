import { env } from "cloudflare:workers";
import { effectsOf, getInstance, historyOf, planRetry, planUndo, resolveDoubt, retryInstance, undoInstance } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { throwing } from "../probe/workflows.ts";
import type { LedgerEntry } from "../upstream/server.ts";
import {
  behave,
  dieAt,
  event,
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
} from "./harness.ts";

/** What was done to take a run's effects back, in the order in which it was: each names what it undid. */
async function takenBack(name: string): Promise<string[]> {
  const ledger = (await (await fetch(`${probeEnv.UPSTREAM_URL}/ledger`)).json()) as LedgerEntry[];
  return ledger.flatMap(({ subject }) =>
    subject.startsWith(`${name}/`) && subject.includes("/undo ") ? [subject.slice(name.length + 1)] : [],
  );
}

async function undone(instanceId: string): Promise<void> {
  await undoInstance(probeEnv, operator, instanceId, "called off");
  expect(await reaches(instanceId, "terminated", "errored", "in_doubt")).toBe("terminated");
}

const entries = (instanceId: string) =>
  rows<{ step: string; generation: number; state: string }>(
    "SELECT step, generation, state FROM inbox WHERE instance_id = ?1 ORDER BY position < 0, position, item, generation",
    instanceId,
  );

const undoRows = (name: string) => rows("SELECT id FROM probe_rows WHERE kind = 'undo' AND name LIKE ?1", `${name}/%`);

describe("An instance that is undone", () => {
  it("I15 has its effects taken back in reverse order, each once, with the output each had; what cannot be taken back stays", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "natural" },
      { do: "commit", name: "rows", undo: "rows" },
      { do: "natural", name: "stays" },
      { do: "lookup", name: "second", undo: "keyed" },
      { do: "once", name: "third", undo: "lookup" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);

    const id = async (subject: string) => (await happened(`${name}/${subject}`))[0]?.id;
    expect(await takenBack(name)).toEqual([
      `third/undo ${await id("third")}`,
      `second/undo ${await id("second")}`,
      `first/undo ${await id("first")}`,
    ]);
    expect(await undoRows(name)).toHaveLength(4);
    expect(await entries(instanceId)).toEqual([
      { step: "first", generation: 1, state: "superseded" },
      { step: "first", generation: 2, state: "failed" },
      { step: "rows", generation: 1, state: "superseded" },
      { step: "rows", generation: 2, state: "failed" },
      { step: "stays", generation: 1, state: "done" },
      { step: "second", generation: 1, state: "superseded" },
      { step: "second", generation: 2, state: "failed" },
      { step: "third", generation: 1, state: "superseded" },
      { step: "third", generation: 2, state: "failed" },
      { step: "undo third", generation: 1, state: "done" },
      { step: "undo second", generation: 1, state: "done" },
      { step: "undo rows", generation: 1, state: "done" },
      { step: "undo first", generation: 1, state: "done" },
    ]);
    const { steps } = await historyOf(probeEnv, await getInstance(probeEnv, operator, instanceId));
    expect(steps.map((step) => step.name)).toEqual([
      ...["first", "rows", "stays", "second", "third"],
      ...["undo third", "undo second", "undo rows", "undo first"],
    ]);
    expect(await rows("SELECT verb, result, reason FROM actions WHERE instance_id = ?1", instanceId)).toEqual([
      { verb: "undo", result: "applied", reason: "called off" },
    ]);
  });

  it("tells others by messages, once, in one write with the undo", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", emit: true, undo: "keyed" }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    const followUps = () => rows("SELECT id FROM probe_rows WHERE name = ?1", `${name}/undo`);
    expect(await until(followUps, (found) => found.length >= 2)).toHaveLength(2);
  });

  it("is undone after a failure too: what had happened until then, and nothing more", async () => {
    const name = fresh();
    await behave({ subject: `${name}/fails`, mode: "refuse", status: 400, times: 9 });
    const { instanceId } = await start(name, [
      { do: "keyed", name: "act", undo: "natural" },
      { do: "keyed", name: "fails", undo: "natural", retries: 0 },
      { do: "keyed", name: "never", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await undone(instanceId);
    expect(await takenBack(name)).toEqual([`act/undo ${(await happened(`${name}/act`))[0]?.id}`]);
    expect(await happened(`${name}/never`)).toEqual([]);
  });

  it("has parallel items taken back also where one of them had failed", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act/b`, mode: "refuse", status: 400, times: 9 });
    const { instanceId } = await start(name, [
      ["a", "b", "c"].map((key) => ({ do: "lookup" as const, name: "act", key, undo: "keyed" as const, retries: 0 })),
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const both = async () => [...(await happened(`${name}/act/a`)), ...(await happened(`${name}/act/c`))];
    expect(await until(both, (found) => found.length === 2)).toHaveLength(2);
    const recorded = () => rows("SELECT item FROM inbox WHERE instance_id = ?1 AND state = 'done'", instanceId);
    await until(recorded, (found) => found.length === 2);
    await undone(instanceId);
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["act/c", "act/a"]);
  });

  it("waits for the branch that is still asking when another one has ended", async () => {
    const name = fresh();
    await behave({ subject: `${name}/fails`, mode: "refuse", status: 400, times: 9 }, { subject: `${name}/lost`, mode: "drop", times: 1 });
    const { instanceId } = await start(name, [
      [
        { do: "lookup", name: "fails", undo: "natural", retries: 0 },
        { do: "lookup", name: "lost", undo: "natural", retries: 0 },
      ],
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const given = () => rows("SELECT step FROM inbox WHERE instance_id = ?1 AND state = 'claimed' AND error IS NOT NULL", instanceId);
    expect(await until(given, (found) => found.length === 1)).toHaveLength(1);
    await env.DB.prepare("UPDATE inbox SET lease_until = ?2 WHERE instance_id = ?1 AND step = 'lost'")
      .bind(instanceId, Date.now() + 800)
      .run();
    await undone(instanceId);
    expect(await takenBack(name)).toEqual([`lost/undo ${(await happened(`${name}/lost`))[0]?.id}`]);
  });

  it("sleeps and waits for nobody: what had come is remembered, what had slept is over", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "sleep", name: "rest", timeoutMs: 50 },
      { do: "wait", name: "wait", subject: name },
      { do: "keyed", name: "act", undo: "keyed" },
    ]);
    await until(
      () => rows("SELECT name FROM waits WHERE instance_id = ?1", instanceId),
      (found) => found.length > 0,
    );
    await probeEnv.PROBE_EVENTS.send(event("probe.signal", name, { about: name, value: "came" }));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    expect(await takenBack(name)).toHaveLength(1);
    const { steps } = await historyOf(probeEnv, await getInstance(probeEnv, operator, instanceId));
    expect(steps.map((step) => step.name)).toEqual(["rest", "wait", "wait · signal", "act", "undo act"]);
  });

  it("is undone to the end although its code catches what ends the walk", async () => {
    const name = fresh();
    await behave({ subject: `${name}/fails`, mode: "refuse", status: 400, times: 9 });
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "natural" },
      { do: "lookup", name: "fails", undo: "natural", retries: 0, swallow: true },
      { do: "keyed", name: "last", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["last", "first"]);
  });

  it("is not undone in part, or in silence, when its code ends before it comes by all that could be taken back", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "natural" },
      { do: "throw", name: "settings" },
      { do: "keyed", name: "second", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    throwing.add(name);
    await undoInstance(probeEnv, operator, instanceId, "called off");
    expect(await reaches(instanceId, "terminated", "errored")).toBe("errored");
    expect((await getInstance(probeEnv, operator, instanceId)).error).toMatchObject({
      code: "nondeterministic_steps",
      message: `"second" could be taken back, and nothing was. The code threw: A setting is missing. Mend the code, deploy it, then retry.`,
    });
    expect(await takenBack(name)).toEqual([]);

    throwing.delete(name);
    await retryInstance(probeEnv, operator, instanceId, { reason: "the setting is there" });
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    expect(await takenBack(name)).toEqual([
      `second/undo ${(await happened(`${name}/second`))[0]?.id}`,
      `first/undo ${(await happened(`${name}/first`))[0]?.id}`,
    ]);
  });

  it("keeps the large payload that the walk needs", async () => {
    const name = fresh();
    const steps = [{ do: "keyed", name: "act", undo: "natural" }];
    const { instanceId } = await start(name, [], { payload: { name, steps, note: "n".repeat(40_000) } });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    expect(await takenBack(name)).toHaveLength(1);
  });
});

describe("W18 undone, then retried", () => {
  it.each(["keyed", "natural", "lookup", "once"] as const)(
    "a %s effect happens again, on purpose, once, under a new key; what stayed is not repeated",
    async (kind) => {
      const name = fresh();
      const { instanceId } = await start(name, [
        { do: kind, name: "act", undo: "natural" },
        { do: "natural", name: "stays" },
        { do: "commit", name: "rows", undo: "rows" },
      ]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      await undone(instanceId);
      await retryInstance(probeEnv, operator, instanceId, { reason: "on again", from: "rows" });
      expect(await reaches(instanceId, "complete", "errored")).toBe("complete");

      const effects = await happened(`${name}/act`);
      // A lookup that asks by subject finds the first one: what an upstream says of what was taken back is its own.
      expect(new Set(effects.map(({ key }) => key)).size).toBe(2);
      expect(effects).toHaveLength(2);
      expect(await happened(`${name}/stays`)).toHaveLength(1);
      expect(await rows("SELECT id FROM probe_rows WHERE kind = 'commit' AND name = ?1", `${name}/rows`)).toHaveLength(2);
      expect((await getInstance(probeEnv, operator, instanceId)).undo).toBeNull();

      // And it can be undone again: the second generation this time, and only that.
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

describe("W19 a crash inside an undo", () => {
  it.each([
    { undo: "keyed", point: "W03 effect done, not recorded" },
    { undo: "keyed", point: "W05 recorded, step result lost" },
    { undo: "natural", point: "W05 recorded, step result lost" },
    { undo: "lookup", point: "W01 claimed, effect not started" },
    { undo: "lookup", point: "W03 effect done, not recorded" },
    { undo: "lookup", point: "W05 recorded, step result lost" },
    { undo: "once", point: "W05 recorded, step result lost" },
  ] as const)("of class $undo at $point: one undo, and its rows once", async ({ undo, point }) => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "natural", name: "act", undo }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const { died } = dieAt(point, instanceId);
    await undoInstance(probeEnv, operator, instanceId, "called off");
    await until(async () => died(), Boolean);
    expect(died()).toBe(true);
    await expireLeases(instanceId);
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(await takenBack(name)).toHaveLength(1);
    expect(await undoRows(name)).toHaveLength(1);
  });

  it("an undo that was promised and not begun is begun by the keeper", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", undo: "keyed" }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    dieAt("undo promised, not applied");
    await expect(undoInstance(probeEnv, operator, instanceId, "called off")).rejects.toThrow("Died");
    expect(await takenBack(name)).toEqual([]);
    await keeperRound();
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(await takenBack(name)).toHaveLength(1);
  });

  it("an undo whose end nobody wrote down is found by the keeper, and is an end as undone", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", undo: "keyed" }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    await env.DB.prepare("UPDATE instances SET status = 'running', check_at = 0 WHERE id = ?1").bind(instanceId).run();
    const ended = async () => {
      await keeperRound();
      return reaches(instanceId, "terminated", "complete");
    };
    expect(await ended()).toBe("terminated");
  });

  it("one undo fails: the instance is errored, what was taken back is not repeated, and a retry goes on with the undo", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "keyed", retries: 0 },
      { do: "keyed", name: "last", undo: "keyed", retries: 0 },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const [{ id } = { id: "" }] = await happened(`${name}/first`);
    await behave({ subject: `${name}/first/undo ${id}`, mode: "refuse", status: 400, times: 1 });
    await undoInstance(probeEnv, operator, instanceId, "called off");
    expect(await reaches(instanceId, "errored", "terminated")).toBe("errored");
    expect(await getInstance(probeEnv, operator, instanceId)).toMatchObject({ error: { step: "undo first" }, undo: expect.any(String) });
    await expect(undoInstance(probeEnv, operator, instanceId, "again")).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("retry it"),
    });

    expect(await planRetry(probeEnv, operator, instanceId)).toEqual({
      from: "undo first",
      refused: null,
      effects: [
        { step: "undo last", item: "", verdict: "kept" },
        { step: "undo first", item: "", verdict: "runs" },
      ],
    });
    await retryInstance(probeEnv, operator, instanceId, { reason: "repaired" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["last", "first"]);
    expect(await happened(`${name}/first`)).toHaveLength(1);
  });

  it("the whole undo is restarted from its beginning: nothing is taken back twice", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "natural" },
      { do: "keyed", name: "last", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const paused = pauseAt("W06 about to record", instanceId);
    await undoInstance(probeEnv, operator, instanceId, "called off");
    await until(async () => paused.reached(), Boolean);
    paused.release();
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    await env.DB.prepare("UPDATE instances SET status = 'errored', error = NULL WHERE id = ?1").bind(instanceId).run();
    await retryInstance(probeEnv, operator, instanceId, { reason: "to be sure" });
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    expect(await takenBack(name)).toHaveLength(2);
    expect(await undoRows(name)).toHaveLength(2);
  });

  it("an undo of class once whose outcome nobody knows is parked for a person, and goes on with the answer", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "keyed" },
      { do: "keyed", name: "mail", undo: "once" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const [{ id } = { id: "" }] = await happened(`${name}/mail`);
    await behave({ subject: `${name}/mail/undo ${id}`, mode: "drop", times: 1 });
    await undoInstance(probeEnv, operator, instanceId, "called off");
    expect(await reaches(instanceId, "in_doubt", "terminated", "errored")).toBe("in_doubt");
    const doubt = (await effectsOf(probeEnv, operator, instanceId)).find(({ state }) => state === "in_doubt");
    expect(doubt).toMatchObject({ step: "undo mail", class: "once" });
    await resolveDoubt(probeEnv, operator, doubt?.key ?? "", { verb: "confirm", output: "seen" }, "they got it");
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["mail", "first"]);
    expect(await undoRows(name)).toHaveLength(2);
  });
});

describe("W20 undoing an unknown outcome", () => {
  it("a lookup effect that had happened is found, recorded and taken back, once", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "drop", times: 1 });
    const { instanceId } = await start(name, [{ do: "lookup", name: "act", undo: "natural", retries: 0, emit: true }]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect((await planUndo(probeEnv, operator, instanceId)).effects).toEqual([{ step: "act", item: "", verdict: "asked" }]);
    await undone(instanceId);
    const effects = await happened(`${name}/act`);
    expect(effects).toHaveLength(1);
    expect(await takenBack(name)).toEqual([`act/undo ${effects[0]?.id}`]);
  });

  it("a lookup effect that had not happened is asked for, not done, and not taken back", async () => {
    const name = fresh();
    dieAt("W01 claimed, effect not started", name);
    const { instanceId } = await start(name, [
      { do: "keyed", name: "before", undo: "natural" },
      { do: "lookup", name: "act", undo: "natural", retries: 0 },
    ]);
    const platformStatus = async () => (await (await probeEnv.PROBE.get(instanceId)).status()).status;
    await until(
      () => platformStatus().catch(() => "not created yet"),
      (status) => status === "errored",
    );
    await expireLeases(instanceId);
    await keeperRound();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await undone(instanceId);
    expect(await happened(`${name}/act`)).toEqual([]);
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["before"]);
    expect((await entries(instanceId)).filter(({ step }) => step === "act")).toEqual([{ step: "act", generation: 1, state: "failed" }]);
  });

  it("a once effect in doubt is refused until a person has said what came of it; then that is taken back", async () => {
    const name = fresh();
    await behave({ subject: `${name}/mail`, mode: "drop", times: 1 });
    const { instanceId } = await start(name, [{ do: "once", name: "mail", undo: "natural" }]);
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    await expect(undoInstance(probeEnv, operator, instanceId, "now")).rejects.toMatchObject({ code: "invalid_transition" });
    expect((await planUndo(probeEnv, operator, instanceId)).effects).toMatchObject([{ verdict: "in_doubt" }]);
    const [effect] = await effectsOf(probeEnv, operator, instanceId);
    await resolveDoubt(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: "mail-9" }, "seen");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    expect(await takenBack(name)).toEqual(["mail/undo mail-9"]);
  });

  it("an effect in doubt is refused as well beside one that could be taken back, in a run that has ended: nothing is taken back", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "before", undo: "natural" },
      { do: "keyed", name: "act", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await env.DB.prepare("UPDATE inbox SET state = 'in_doubt' WHERE instance_id = ?1 AND step = 'act'").bind(instanceId).run();
    await expect(undoInstance(probeEnv, operator, instanceId, "now")).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("in doubt"),
    });
  });

  it("W11 an output that could not be kept stops the undo before anything is taken back; once it is given, the undo goes on", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "before", undo: "natural" },
      { do: "keyed", name: "act", output: "cycle", undo: "natural", swallow: true },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undoInstance(probeEnv, operator, instanceId, "called off");
    expect(await reaches(instanceId, "errored", "terminated")).toBe("errored");
    expect((await getInstance(probeEnv, operator, instanceId)).error).toMatchObject({ step: "act", code: "output_not_serializable" });
    expect(await takenBack(name)).toEqual([]);
    const act = (await effectsOf(probeEnv, operator, instanceId)).find(({ step }) => step === "act");
    await resolveDoubt(probeEnv, operator, act?.key ?? "", { verb: "confirm", output: "given" }, "read it upstream");
    await retryInstance(probeEnv, operator, instanceId, { reason: "has an output now" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["act", "before"]);
  });
});

describe("What cannot be undone", () => {
  it("is what is still under way, what is undone already, and what is another tenant's", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "act", undo: "natural" },
      { do: "wait", name: "wait", subject: name },
    ]);
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    await expect(undoInstance(probeEnv, operator, instanceId, "now")).rejects.toMatchObject({
      code: "invalid_transition",
      detail: { from: "waiting" },
    });
    await probeEnv.PROBE_EVENTS.send(event("probe.signal", name, { about: name, value: "came" }));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await expect(undoInstance(probeEnv, { tenantId: "globex", actor: "gus" }, instanceId, "mine?")).rejects.toMatchObject({
      code: "instance_not_found",
    });
    await undone(instanceId);
    await expect(undoInstance(probeEnv, operator, instanceId, "again")).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("undone already"),
    });
    expect(await takenBack(name)).toHaveLength(1);
    expect(await rows("SELECT result FROM actions WHERE instance_id = ?1 AND verb = 'undo' ORDER BY result", instanceId)).toEqual([
      { result: "applied" },
      { result: "no_change" },
      { result: "no_change" },
    ]);
  });

  it("is said beforehand by a dry run, in the order of the undo, and nothing is done", async () => {
    const name = fresh();
    await behave({ subject: `${name}/fails`, mode: "refuse", status: 400, times: 9 });
    const { instanceId } = await start(name, [
      { do: "keyed", name: "act", undo: "natural" },
      { do: "natural", name: "stays" },
      { do: "commit", name: "rows", undo: "rows" },
      { do: "lookup", name: "fails", undo: "natural", retries: 0, swallow: true },
      { do: "keyed", name: "lost", subject: `${name}/fails`, undo: "natural", retries: 0 },
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect((await planUndo(probeEnv, operator, instanceId)).effects).toEqual([
      { step: "lost", item: "", verdict: "unknown" },
      { step: "fails", item: "", verdict: "nothing" },
      { step: "rows", item: "", verdict: "undone" },
      { step: "stays", item: "", verdict: "stays" },
      { step: "act", item: "", verdict: "undone" },
    ]);
    expect(await takenBack(name)).toEqual([]);
    expect((await getInstance(probeEnv, operator, instanceId)).status).toBe("errored");
  });

  it("is said beforehand also of what was done again without a record: nobody knows whether it happened", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "commit", name: "rows", undo: "rows" },
      { do: "keyed", name: "act", undo: "natural", retries: 0 },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    await behave({ subject: `${name}/act`, mode: "refuse", status: 400, times: 9 });
    await retryInstance(probeEnv, operator, instanceId, { reason: "wanted after all" });
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    expect((await planUndo(probeEnv, operator, instanceId)).effects).toEqual([
      { step: "rows", item: "", verdict: "undone" },
      { step: "act", item: "", verdict: "unknown" },
    ]);
  });
});

it("An instance that the platform has lost is created anew, and its first steps ask what is recorded although it looks young", async () => {
  const name = fresh();
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "natural", name: "act" }]).catch(() => undefined);
  const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM instances WHERE subject = ?1", name);
  await env.DB.batch([
    env.DB.prepare(
      `INSERT INTO inbox (instance_id, step, item, generation, position, class, state, epoch, token, output, updated_at)
       VALUES (?1, 'act', '', 1, 0, 'natural', 'done', 1, 't', '"long ago"', 1)`,
    ).bind(id),
    env.DB.prepare("UPDATE instances SET status = 'running' WHERE id = ?1").bind(id),
  ]);
  await keeperRound();
  expect(await reaches(id, "complete", "errored")).toBe("complete");
  expect((await (await probeEnv.PROBE.get(id)).status()).output).toEqual({ outputs: ["long ago"] });
  expect(await happened(`${name}/act`)).toEqual([]);
});
