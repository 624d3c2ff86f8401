import { env } from "cloudflare:workers";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { throwing } from "../../probe/workflows.ts";
import {
  behave,
  dieAt,
  event,
  fresh,
  happened,
  keeperRound,
  operator,
  probeEnv,
  probeOutput,
  reaches,
  rows,
  start,
  until,
} from "../harness.ts";
import { entries, takenBack, undone, undoRows } from "./undoing.ts";

describe("An undo", () => {
  it("I15 an undo calls the undo handlers in reverse order, each once and with its own output; effects without a handler remain", async () => {
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
    // The list of effects contains sent requests only: a retry has not sent its effects under a new key yet.
    const shown = await instances.effects(probeEnv, operator, instanceId);
    expect(shown.map(({ step, generation, state }) => `${step} ${generation}: ${state}`)).toEqual([
      ...["first 1: superseded", "rows 1: superseded", "stays 1: done", "second 1: superseded", "third 1: superseded"],
      ...["undo third 1: done", "undo second 1: done", "undo rows 1: done", "undo first 1: done"],
    ]);
    expect((await instances.plan(probeEnv, operator, "retry", instanceId, {})).effects).toContainEqual({
      step: "first",
      item: "",
      verdict: "runs",
    });
    const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, instanceId));
    expect(steps.map((step) => step.name)).toEqual([
      ...["first", "rows", "stays", "second", "third"],
      ...["undo third", "undo second", "undo rows", "undo first"],
    ]);
    expect(await rows("SELECT verb, result, reason FROM millrace_actions WHERE instance_id = ?1", instanceId)).toEqual([
      { verb: "undo", result: "applied", reason: "called off" },
    ]);
  });

  it("an undo handler can send messages, which are written once and together with the undo step", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", emit: true, undo: "keyed" }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    const followUps = () => rows("SELECT id FROM probe_rows WHERE name = ?1", `${name}/undo`);
    expect(await until(followUps, (found) => found.length >= 2)).toHaveLength(2);
  });

  it("an undo of a failed run undoes the effects before the failure, and nothing more", async () => {
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

  it("an undo undoes the completed items of a parallel map also when one of them had failed", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act/b`, mode: "refuse", status: 400, times: 9 });
    const { instanceId } = await start(name, [
      ["a", "b", "c"].map((key) => ({ do: "lookup" as const, name: "act", key, undo: "keyed" as const, retries: 0 })),
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const both = async () => [...(await happened(`${name}/act/a`)), ...(await happened(`${name}/act/c`))];
    expect(await until(both, (found) => found.length === 2)).toHaveLength(2);
    const recorded = () => rows("SELECT item FROM millrace_inbox WHERE instance_id = ?1 AND state = 'done'", instanceId);
    await until(recorded, (found) => found.length === 2);
    await undone(instanceId);
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["act/c", "act/a"]);
  });

  it("an undo waits for a branch that still performs a lookup after another branch has ended", async () => {
    const name = fresh();
    await behave({ subject: `${name}/fails`, mode: "refuse", status: 400, times: 9 }, { subject: `${name}/lost`, mode: "drop", times: 1 });
    const { instanceId } = await start(name, [
      [
        { do: "lookup", name: "fails", undo: "natural", retries: 0 },
        { do: "lookup", name: "lost", undo: "natural", retries: 0 },
      ],
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const given = () =>
      rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1 AND state = 'claimed' AND error IS NOT NULL", instanceId);
    expect(await until(given, (found) => found.length === 1)).toHaveLength(1);
    await env.DB.prepare("UPDATE millrace_inbox SET lease_until = ?2 WHERE instance_id = ?1 AND step = 'lost'")
      .bind(instanceId, Date.now() + 800)
      .run();
    await undone(instanceId);
    expect(await takenBack(name)).toEqual([`lost/undo ${(await happened(`${name}/lost`))[0]?.id}`]);
  });

  it("an undo neither sleeps nor waits: it uses the recorded events, and skips sleeps", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "sleep", name: "rest", timeoutMs: 50 },
      { do: "wait", name: "wait", subject: name },
      { do: "keyed", name: "act", undo: "keyed" },
    ]);
    await until(
      () => rows("SELECT name FROM millrace_waits WHERE instance_id = ?1", instanceId),
      (found) => found.length > 0,
    );
    await probeEnv.PROBE_EVENTS.send(event("probe.signal", name, { about: name, value: "came" }));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    expect(await takenBack(name)).toHaveLength(1);
    const { steps } = await instances.history(probeEnv, await instances.get(probeEnv, operator, instanceId));
    expect(steps.map((step) => step.name)).toEqual(["rest", "wait", "wait · signal", "act", "undo act"]);
  });

  it("an undo completes although the code catches the error that ends the replay", async () => {
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

  it("an undo fails with a reason when the code ends before it reaches all undoable effects", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "first", undo: "natural" },
      { do: "throw", name: "settings" },
      { do: "keyed", name: "second", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    throwing.add(name);
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("errored");
    expect((await instances.get(probeEnv, operator, instanceId)).error).toMatchObject({
      code: "nondeterministic_steps",
      message: `"second" can be undone, but the undo did not reach it. The code threw: A setting is missing. Fix the code, deploy it, then retry.`,
    });
    expect(await takenBack(name)).toEqual([]);

    throwing.delete(name);
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the setting is deployed" });
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    expect(await takenBack(name)).toEqual([
      `second/undo ${(await happened(`${name}/second`))[0]?.id}`,
      `first/undo ${(await happened(`${name}/first`))[0]?.id}`,
    ]);
  });

  it("an undo keeps the large payload that its replay needs", async () => {
    const name = fresh();
    const steps = [{ do: "keyed", name: "act", undo: "natural" }];
    const { instanceId } = await start(name, [], { payload: { name, steps, note: "n".repeat(40_000) } });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    expect(await takenBack(name)).toHaveLength(1);
  });
});

it("an instance that the platform has lost is created again, and its first steps read the inbox although the instance is young", async () => {
  const name = fresh();
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "natural", name: "act" }]).catch(() => undefined);
  const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  await env.DB.batch([
    env.DB.prepare(
      `INSERT INTO millrace_inbox (instance_id, step, item, generation, position, class, state, epoch, token, output, updated_at)
       VALUES (?1, 'act', '', 1, 0, 'natural', 'done', 1, 't', '"long ago"', 1)`,
    ).bind(id),
    env.DB.prepare("UPDATE millrace_instances SET status = 'running' WHERE id = ?1").bind(id),
  ]);
  await keeperRound();
  expect(await reaches(id, "complete", "errored")).toBe("complete");
  expect(await probeOutput(id)).toEqual({ outputs: ["long ago"] });
  expect(await happened(`${name}/act`)).toEqual([]);
});
