import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { acceptance } from "../../../packages/millrace/src/intake/accept/accept.ts";
import { outgoing } from "../../../packages/millrace/src/recorder/proof.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { isSlow } from "../../until.ts";
import { deliver, dieAt, envelopeOf, fresh, keeperRound, operator, probeEnv, reaches, rows, start } from "../harness.ts";
import { platformOf, platformReaches } from "../lab.ts";
import { type Class, comes, kept, play, scene, waiting } from "./scene.ts";

const cancel = (id: string, more: { undo?: boolean } = {}) =>
  instances.act(probeEnv, operator, "cancel", id, { reason: "called off", ...more });
const standing = (id: string) => instances.get(probeEnv, operator, id);
const audited = (id: string) => rows("SELECT verb, result FROM millrace_actions WHERE instance_id = ?1 ORDER BY at, result", id);

describe("W23 a cancel while an effect is running", () => {
  it.each(["keyed", "natural", "lookup", "once"] as const)(
    "I15 a cancel records a running %s effect, then undoes it before the earlier effects, and no later step begins",
    async (of: Class) => {
      const its = scene();
      const id = await play(its, async (step) => {
        await its.act(step, "a");
        await its.act(step, "b", of, "slow");
        await its.act(step, "c");
      });
      await comes(() => its.log.includes("b"));
      expect((await instances.plan(probeEnv, operator, "cancel", id, {})).effects).toEqual([
        { step: "b", item: "", verdict: "under_way" },
        { step: "a", item: "", verdict: "undone" },
      ]);
      const cancelled = cancel(id);
      await comes(async () => (await standing(id)).undo !== null);
      its.state.go = true;
      await cancelled;
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(its.log).toEqual(["a", "b", "undo b(its b)", "undo a(its a)"]);
    },
  );

  it("a cancel waits for a long effect, and undoes nothing in parallel in any round of the keeper", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a");
      await its.act(step, "b", "once", "slow");
    });
    await comes(() => its.log.includes("b"));
    await cancel(id);
    for (let round = 0; round < 3; round++) await keeperRound();
    expect(its.log).toEqual(["a", "b"]);
    its.state.go = true;
    expect(await kept(id, "terminated", "errored", "in_doubt")).toBe("terminated");
    expect(its.log).toEqual(["a", "b", "undo b(its b)", "undo a(its a)"]);
  });

  it("a cancel while a resume is pending undoes nothing in parallel to a running effect", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a");
      await its.act(step, "b", "natural", "slow");
    });
    await comes(() => its.log.includes("b"));
    await instances.act(probeEnv, operator, "pause", id, { reason: "let me look" });
    const { died } = dieAt("resume committed, not applied");
    await instances.act(probeEnv, operator, "resume", id, { reason: "on again" }).catch(() => undefined);
    expect(died()).toBe(true);
    const cancelled = cancel(id);
    await comes(async () => (await standing(id)).undo !== null);
    for (let round = 0; round < 3; round++) await keeperRound();
    its.state.go = true;
    await cancelled;
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "b", "undo b(its b)", "undo a(its a)"]);
  });

  it("a cancel undoes a commit's rows after that commit is written", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "commit", name: "rows", undo: "rows" },
      { do: "wait", name: "wait", subject: name },
    ]);
    await reaches(instanceId, "waiting");
    await cancel(instanceId);
    expect(await kept(instanceId, "terminated", "errored")).toBe("terminated");
    expect(await rows("SELECT kind FROM probe_rows WHERE name LIKE ?1 ORDER BY kind", `${name}/rows%`)).toEqual([
      { kind: "commit" },
      { kind: "undo" },
    ]);
  });

  it.each(["keyed", "natural"] as const)(
    "W20 a cancel between two attempts repeats a %s effect with a lost answer under its key, and then undoes it",
    async (of) => {
      const its = scene();
      its.state.lose = true;
      const id = await play(its, async (step) => {
        await its.act(step, "a");
        await its.act(step, "b", of);
      });
      // The first attempt loses its answer as well, and the next one is an hour later.
      await comes(() => its.log.includes("a"));
      its.state.lose = false;
      await cancel(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(its.log.at(-1)).toBe("undo a(its a)");
      expect(its.log.filter((one) => one.startsWith("undo"))).toHaveLength(1);
      expect(its.log).not.toContain("b");
    },
  );

  it("a cancel waits for an operator's answer about a once effect with a lost answer", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a");
      its.state.lose = true;
      await its.act(step, "b", "once");
    });
    expect(await reaches(id, "in_doubt")).toBe("in_doubt");
    its.state.lose = false;
    expect((await instances.plan(probeEnv, operator, "cancel", id, {})).effects[0]).toEqual({ step: "b", item: "", verdict: "in_doubt" });
    await cancel(id);
    await comes(async () => (await platformOf(id)).status !== "running" && (await platformOf(id)).status !== "waiting");
    expect((await standing(id)).status).toBe("in_doubt");
    const doubt = (await instances.effects(probeEnv, operator, id)).find(({ state }) => state === "in_doubt");
    await effects.resolve(probeEnv, operator, doubt?.key ?? "", { verb: "confirm", output: "seen" }, "it is there");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "b", "undo b(seen)", "undo a(its a)"]);
  });
});

describe("A cancelled instance", () => {
  it("a cancelled instance that sleeps or waits for an event is ended and undone at once", async () => {
    for (const rest of ["sleep", "wait"] as const) {
      const its = scene();
      const id = await play(its, async (step) => {
        await its.act(step, "a");
        if (rest === "sleep") await step.sleep("rest", "1 day");
        else await step.waitFor("event", ProbeSignal, { subject: its.name });
        await its.act(step, "c");
      });
      await comes(async () => (await standing(id)).step === "a");
      await cancel(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(its.log).toEqual(["a", "undo a(its a)"]);
      expect(await standing(id)).toMatchObject({ undo: expect.any(String), run: 2 });
    }
  });

  it("an instance that is cancelled before its start never starts, neither by a late copy of its message nor by the keeper", async () => {
    const its = scene();
    dieAt("A03 accept committed, not enqueued");
    await play(its, (step) => its.act(step, "a")).catch(() => undefined);
    const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", its.name);
    await cancel(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    const copy = await envelopeOf(id);
    await deliver("probe-commands", [copy, copy]);
    expect(await kept(id, "terminated")).toBe("terminated");
    expect(its.log).toEqual([]);
    expect(await audited(id)).toEqual([{ verb: "cancel", result: "applied" }]);
  });

  it("a cancelled instance with a delayed start never starts, although the process dies before the platform gets the cancel", async () => {
    const its = scene();
    dieAt("A03 accept committed, not enqueued");
    await play(its, (step) => its.act(step, "a")).catch(() => undefined);
    const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", its.name);
    dieAt("cancel committed, not applied");
    await cancel(id).catch(() => undefined);
    const delayed = outgoing(
      probeEnv.MILLRACE_KEY,
      acceptance({ name: "lab" }, await envelopeOf(id), "probe-commands", { delaySeconds: 5 }),
    );
    await deliver("probe-commands", [JSON.parse(delayed.body)]);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual([]);
  });

  it("a cancelled instance is not started by its queued message, although the process dies before the platform gets the cancel", async () => {
    const its = scene();
    const { id, message } = await waiting(its, (step) => its.act(step, "a"));
    dieAt("cancel committed, not applied");
    await cancel(id).catch(() => undefined);
    await deliver("probe-commands", [message]);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual([]);
  });

  it("a double click on cancel is one action and two audit records; the second click is refused", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a");
      await step.sleep("rest", "1 day");
    });
    await comes(async () => (await standing(id)).step === "a");
    const clicks = await Promise.allSettled([cancel(id), cancel(id)]);
    expect(clicks.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(clicks.find(({ status }) => status === "rejected")).toMatchObject({ reason: { code: "invalid_transition" } });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "undo a(its a)"]);
    expect(await audited(id)).toEqual([
      { verb: "cancel", result: "applied" },
      { verb: "cancel", result: "no_change" },
    ]);
    await expect(cancel(id)).rejects.toMatchObject({ code: "invalid_transition", detail: { from: "terminated", to: "terminated" } });
    expect((await instances.plan(probeEnv, operator, "cancel", id, {})).refused).toContain("only an instance that has not ended");
  });

  it("a retry directly after a cancel without undo ends the old run before the next run begins", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      const a = () => {
        its.log.push("a");
        return {};
      };
      // The step after a platform step is an inline step, for any state of the process.
      await step.commit("begun", () => ({}));
      await step.commit("a", a, { steps: "inline" });
      await step.sleep("rest", "1 minute");
    });
    await comes(async () => (await instances.steps(probeEnv, operator, await standing(id))).steps.some(({ type }) => type === "sleep"));
    await cancel(id, { undo: false });
    await instances.act(probeEnv, operator, "retry", id, { reason: "the run may continue" });
    const begun = () =>
      rows("SELECT restarted_at FROM millrace_actions WHERE instance_id = ?1 AND verb = 'retry' AND restarted_at IS NOT NULL", id);
    expect(await begun()).toHaveLength(1);
    expect(its.log).toEqual(["a"]);
  });

  it.each(["retried", "undone"] as const)(
    "an instance that is cancelled without undo and %s at once records its running effect first",
    async (how) => {
      const its = scene();
      const id = await play(its, async (step) => {
        await its.act(step, "c");
        await its.act(step, "a", how === "retried" ? "once" : "natural", "slow");
        await its.act(step, "b");
      });
      await comes(() => its.log.includes("a"));
      await cancel(id, { undo: false });
      if (how === "retried") await instances.act(probeEnv, operator, "retry", id, { reason: "the run may continue" });
      else await instances.act(probeEnv, operator, "undo", id, { reason: "all of it" });
      // The effect times out after 20 s, and a round takes several seconds on a slow platform.
      for (let round = 0; round < (isSlow ? 3 : 8); round++) {
        await rows("UPDATE millrace_actions SET due_at = 0 WHERE instance_id = ?1 AND applied_at IS NULL", id);
        await keeperRound();
      }
      expect(its.log).toEqual(["c", "a"]);
      its.state.go = true;
      const [end, ...behind] = how === "retried" ? ["complete", "b"] : ["terminated", "undo a(its a)", "undo c(its c)"];
      expect(await kept(id, "complete", "terminated", "errored", "in_doubt")).toBe(end);
      expect(its.log).toEqual(["c", "a", ...behind]);
    },
  );

  it("a cancel with `undo: false` keeps the effects, and a retry runs the remaining steps", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a");
      await its.act(step, "b", "keyed", "slow");
      await its.act(step, "c");
    });
    await comes(() => its.log.includes("b"));
    const cancelled = cancel(id, { undo: false });
    await reaches(id, "terminated");
    its.state.go = true;
    await cancelled;
    await comes(async () => ["errored", "terminated"].includes((await platformOf(id)).status));
    expect(await standing(id)).toMatchObject({ status: "terminated", undo: null });
    expect(its.log).toEqual(["a", "b"]);
    await instances.act(probeEnv, operator, "retry", id, { reason: "on again" });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(its.log).toEqual(["a", "b", "c"]);
  });

  it.each(["cancel committed, not applied", "platform run stopped, not restarted"] as const)(
    "a cancelled instance is undone by the keeper when the process dies at: %s",
    async (point) => {
      const its = scene();
      const id = await play(its, async (step) => {
        await its.act(step, "a");
        await step.sleep("rest", "1 day");
        await its.act(step, "c");
      });
      await comes(async () => (await standing(id)).step === "a");
      const { died } = dieAt(point, point === "cancel committed, not applied" ? undefined : id);
      await cancel(id).catch(() => undefined);
      await comes(async () => {
        if (!died()) await keeperRound().catch(() => undefined);
        return died();
      });
      expect(died()).toBe(true);
      await probeEnv.DB.prepare("UPDATE millrace_actions SET lease_until = 0 WHERE instance_id = ?1").bind(id).run();
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(its.log).toEqual(["a", "undo a(its a)"]);
      await platformReaches(id, "terminated", "errored");
    },
  );
});
