import { env } from "cloudflare:workers";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import {
  behave,
  dieAt,
  event,
  expireLeases,
  fresh,
  happened,
  keeperRound,
  operator,
  probeEnv,
  reaches,
  rows,
  start,
  until,
} from "../harness.ts";
import { entries, takenBack, undone } from "./undoing.ts";

describe("W20 an undo of an effect with an unknown outcome", () => {
  it("an undo finds a lookup effect that had happened, records it, and undoes it once", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "drop", times: 1 });
    const { instanceId } = await start(name, [{ do: "lookup", name: "act", undo: "natural", retries: 0, emit: true }]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect((await instances.plan(probeEnv, operator, "undo", instanceId, {})).effects).toEqual([
      { step: "act", item: "", verdict: "asked" },
    ]);
    await undone(instanceId);
    const effects = await happened(`${name}/act`);
    expect(effects).toHaveLength(1);
    expect(await takenBack(name)).toEqual([`act/undo ${effects[0]?.id}`]);
  });

  it("an undo looks up a lookup effect that had not happened, and neither repeats nor undoes it", async () => {
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

  it("a once effect in doubt blocks the undo until an operator has entered its outcome", async () => {
    const name = fresh();
    await behave({ subject: `${name}/mail`, mode: "drop", times: 1 });
    const { instanceId } = await start(name, [{ do: "once", name: "mail", undo: "natural" }]);
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    await expect(instances.act(probeEnv, operator, "undo", instanceId, { reason: "now" })).rejects.toMatchObject({
      code: "invalid_transition",
    });
    expect((await instances.plan(probeEnv, operator, "undo", instanceId, {})).effects).toMatchObject([{ verdict: "in_doubt" }]);
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    await effects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: "mail-9" }, "seen");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    expect(await takenBack(name)).toEqual(["mail/undo mail-9"]);
  });

  it("an effect in doubt blocks the undo of an ended run also when another effect can be undone: nothing is undone", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "before", undo: "natural" },
      { do: "keyed", name: "act", undo: "natural" },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await env.DB.prepare("UPDATE millrace_inbox SET state = 'in_doubt' WHERE instance_id = ?1 AND step = 'act'").bind(instanceId).run();
    await expect(instances.act(probeEnv, operator, "undo", instanceId, { reason: "now" })).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("in doubt"),
    });
  });

  it("W11 an output that could not be stored blocks the undo until an operator has entered it", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "before", undo: "natural" },
      { do: "keyed", name: "act", output: "cycle", undo: "natural", swallow: true },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    expect(await reaches(instanceId, "errored", "terminated")).toBe("errored");
    expect((await instances.get(probeEnv, operator, instanceId)).error).toMatchObject({ step: "act", code: "output_not_serializable" });
    expect(await takenBack(name)).toEqual([]);
    const act = (await instances.effects(probeEnv, operator, instanceId)).find(({ step }) => step === "act");
    await effects.resolve(probeEnv, operator, act?.key ?? "", { verb: "confirm", output: "given" }, "read it upstream");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "has an output now" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect((await takenBack(name)).map((one) => one.split("/undo ")[0])).toEqual(["act", "before"]);
  });
});

describe("The refusals and the dry run of an undo", () => {
  it("an undo of a running instance, of an undone instance and of another tenant's instance is refused", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "act", undo: "natural" },
      { do: "wait", name: "wait", subject: name },
    ]);
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    await expect(instances.act(probeEnv, operator, "undo", instanceId, { reason: "now" })).rejects.toMatchObject({
      code: "invalid_transition",
      detail: { from: "waiting" },
    });
    await probeEnv.PROBE_EVENTS.send(event("probe.signal", name, { about: name, value: "came" }));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await expect(
      instances.act(probeEnv, { tenantId: "globex", actor: "gus" }, "undo", instanceId, { reason: "mine?" }),
    ).rejects.toMatchObject({
      code: "instance_not_found",
    });
    await undone(instanceId);
    await expect(instances.act(probeEnv, operator, "undo", instanceId, { reason: "again" })).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("undone already"),
    });
    expect(await takenBack(name)).toHaveLength(1);
    expect(await rows("SELECT result FROM millrace_actions WHERE instance_id = ?1 AND verb = 'undo' ORDER BY result", instanceId)).toEqual([
      { result: "applied" },
      { result: "no_change" },
      { result: "no_change" },
    ]);
  });

  it("a dry run of an undo lists each effect in the order of the undo, and changes nothing", async () => {
    const name = fresh();
    await behave({ subject: `${name}/fails`, mode: "refuse", status: 400, times: 9 });
    await behave({ subject: `${name}/lost`, mode: "fail", status: 500, times: 9 });
    const { instanceId } = await start(name, [
      { do: "keyed", name: "act", undo: "natural" },
      { do: "natural", name: "stays" },
      { do: "commit", name: "rows", undo: "rows" },
      { do: "lookup", name: "fails", undo: "natural", retries: 0, swallow: true },
      { do: "keyed", name: "lost", undo: "natural", retries: 0 },
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect((await instances.plan(probeEnv, operator, "undo", instanceId, {})).effects).toEqual([
      { step: "lost", item: "", verdict: "repeated" },
      { step: "fails", item: "", verdict: "nothing" },
      { step: "rows", item: "", verdict: "undone" },
      { step: "stays", item: "", verdict: "stays" },
      { step: "act", item: "", verdict: "undone" },
    ]);
    expect(await takenBack(name)).toEqual([]);
    expect((await instances.get(probeEnv, operator, instanceId)).status).toBe("errored");
  });

  it("a dry run of an undo lists unrecorded effects, which the undo repeats once to determine their outcome", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "commit", name: "rows", undo: "rows" },
      { do: "keyed", name: "act", undo: "natural", retries: 0 },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await undone(instanceId);
    await behave({ subject: `${name}/act`, mode: "fail", status: 500, times: 9 });
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "wanted after all" });
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    expect((await instances.plan(probeEnv, operator, "undo", instanceId, {})).effects).toEqual([
      { step: "rows", item: "", verdict: "undone" },
      { step: "act", item: "", verdict: "repeated" },
    ]);
  });
});
