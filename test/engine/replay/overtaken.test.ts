import { defineStep, notRetryable, upstreamRefused } from "millrace";
import { effects, instances } from "millrace/operate";
import { afterEach, describe, expect, it } from "vitest";
import { unpackOutput } from "../../../packages/millrace/src/guard/output.ts";
import { packChildResult } from "../../../packages/millrace/src/guard/result.ts";
import type { LabCall } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { mode } from "../../probe/mode.ts";
import { blocked } from "../../probe/turns.ts";
import { dieAt, fresh, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, held, outputOf, platformReaches } from "../lab.ts";
import { TurnKey } from "../lanes/turning.ts";
import { replayHere, twoReplays } from "./ghost.ts";
import { recorded, world } from "./world.ts";

afterEach(() => {
  mode.steps = "platform";
});

const OVERTAKEN = { status: "rejected", reason: { message: expect.stringContaining("Another replay has recorded") } };

const completes = async () => "older";
const fails = async () => Promise.reject(notRetryable("The older replay has failed."));

const refused = defineStep({
  effect: "natural",
  retries: { limit: 0, delay: 10 },
  run: () => Promise.reject(upstreamRefused("Refused.")),
});

/** A workflow function that catches a failure and then acts. */
const catching =
  (act: ReturnType<typeof world>["act"]) =>
  async ({ step }: LabCall) => {
    await step.effect("pay", refused, "older").catch(() => undefined);
    return act(step, "after the failure");
  };

const caughtOf = async (instanceId: string) =>
  (await rows<{ caught: string | null }>("SELECT caught FROM millrace_instances WHERE id = ?1", instanceId))[0]?.caught;

/** The rest of a replay that records an effect, pauses until it may continue, and records another effect. */
function goingOn() {
  const { done, act } = world();
  const state = { go: false };
  const newer = async ({ step }: LabCall, winner: string) => {
    await step.commit(`won by ${winner}` as never, () => ({}));
    await step.read("wait", () => held(() => state.go));
    await act(step, `after ${winner}`);
    return winner;
  };
  return { done, act, state, newer };
}

/** A run whose newer replay fails until the test has fixed it. Then the run pauses until it may continue. */
function failing() {
  const state = { isBroken: true, isHeld: false, go: false };
  const newer = async ({ step }: LabCall) => {
    if (state.isBroken) throw notRetryable("The newer replay has failed.");
    await step.read("wait", () => {
      state.isHeld = true;
      return held(() => state.go);
    });
    return "newer";
  };
  return { state, newer };
}

describe.each(["platform", "inline"] as const)("An overtaken replay of %s steps", (steps) => {
  it.each([
    ["completes", completes, "a"],
    ["fails", fails, "a"],
    ["returns early, without the step that the newer replay recorded", completes, "b"],
    ["fails before the step that the newer replay recorded", fails, "b"],
  ] as const)("W25 does not end the run if it %s", async (_, older, winner) => {
    mode.steps = steps;
    const { done, state, newer } = goingOn();
    const { instanceId, begin, release } = await twoReplays({ older, newer, winner });
    await begin();
    await recorded(instanceId, "won by b");
    expect(await release()).toMatchObject(OVERTAKEN);
    expect(await statusOf(instanceId)).toBe("running");
    state.go = true;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect([await outputOf(instanceId), done]).toEqual(["b", ["after b"]]);
  });

  it("W25 stores no failure that it caught, and begins no effect after the failure", async () => {
    mode.steps = steps;
    const { done, act, state, newer } = goingOn();
    const older = catching(act);
    const { instanceId, begin, release } = await twoReplays({ older, newer });
    await begin();
    await recorded(instanceId, "won by b");
    expect(await release()).toMatchObject(OVERTAKEN);
    expect([await caughtOf(instanceId), done]).toEqual([null, []]);
    state.go = true;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });
});

describe("A replay that does not know an operator's answer about an effect of the newer replay", () => {
  it.each(["completes", "fails", "sends another mail"])("W17 W25 records nothing and is overtaken if it %s", async (what) => {
    const { done, act } = world();
    const state = { go: false };
    const mail = defineStep<string, string>({
      effect: "once",
      async run({ input }) {
        done.push(input);
        throw new Error("The reply was lost.");
      },
    });
    const newer = async ({ step }: LabCall, winner: string) => {
      await step.effect("mail", mail, "newer");
      await step.read("wait", () => held(() => state.go));
      await act(step, `after ${winner}`);
      return winner;
    };
    const older = async ({ step }: LabCall) => {
      if (what === "sends another mail") await step.effect("other mail", mail, "older");
      return what === "fails" ? fails() : completes();
    };
    const { instanceId, begin, release } = await twoReplays({ older, newer });
    await begin();
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    await effects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: "sent" }, "in the sent folder");
    await recorded(instanceId, "mail");
    expect(await release()).toMatchObject(OVERTAKEN);
    expect([await statusOf(instanceId), done]).toEqual(["running", ["newer"]]);
    state.go = true;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect([await outputOf(instanceId), done]).toEqual(["b", ["newer", "after b"]]);
  });
});

describe("A replay that is still alive", () => {
  it.each([
    ["completes", completes],
    ["fails", fails],
  ])("W33 does not end the next run if it %s after an operator's retry", async (_, older) => {
    const { state, newer } = failing();
    const { instanceId, begin, release } = await twoReplays({ older, newer });
    await begin();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    state.isBroken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    await until(async () => state.isHeld, Boolean);
    await release();
    expect(await statusOf(instanceId)).toBe("running");
    state.go = true;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("newer");
  });

  it("W33 stores no caught failure for the next run after an operator's retry", async () => {
    const { done, act } = world();
    const { state, newer } = failing();
    const older = catching(act);
    const { instanceId, begin, release } = await twoReplays({ older, newer });
    await begin();
    await platformReaches(instanceId, "errored");
    state.isBroken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    await until(async () => state.isHeld, Boolean);
    const before = await caughtOf(instanceId);
    expect(await release()).toMatchObject({ status: "rejected", reason: { message: expect.stringContaining("stopped the run") } });
    expect([await caughtOf(instanceId), done]).toEqual([before, []]);
    state.go = true;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it.each([
    ["wait", "waits", ({ step }: LabCall) => step.waitFor("other", ProbeSignal, { subject: "other" })],
    ["question", "approvals", ({ step }: LabCall) => step.approve("other", { question: "Go on?" })],
  ] as const)("W29 registers no %s after an operator's retry", async (_, table, older) => {
    const { state, newer } = failing();
    const { instanceId, begin, release } = await twoReplays({ older, newer });
    await begin();
    await platformReaches(instanceId, "errored");
    state.isBroken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    await until(async () => state.isHeld, Boolean);
    expect(await release()).toMatchObject({ status: "rejected", reason: { message: expect.stringContaining("stopped the run") } });
    expect(await rows(`SELECT 1 FROM millrace_${table} WHERE instance_id = ?1`, instanceId)).toEqual([]);
    state.go = true;
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("W33 does not overwrite the large result of a child that another replay reports", async () => {
    const child = { tenantId: "acme", parent: fresh(), id: fresh(), run: 1 };
    const [newer, older] = ["newer", "older"].map((word) => word.repeat(10_000));
    const packed = JSON.parse(await packChildResult(probeEnv.PAYLOADS, child, newer));
    await packChildResult(probeEnv.PAYLOADS, child, older);
    expect(await unpackOutput(probeEnv.PAYLOADS, packed)).toBe(newer);
  });

  it("L12 reports no end to the lane of its command, because another replay runs", async () => {
    const key = new TurnKey(blocked);
    const state = { begun: 0, isHeld: false, go: false, recorded: false };
    key.run("a", async ({ step }) => {
      if (state.begun++ > 0) {
        state.isHeld = true;
        await held(() => state.recorded);
        throw notRetryable("The older replay has failed.");
      }
      await step.read("wait for the older replay", () => held(() => state.isHeld));
      await step.commit("act", () => ({}));
      await step.read("wait", () => held(() => state.go));
    });
    await key.askAll("a", "b");
    await key.seenBy("a begins");
    await until(async () => state.begun === 1, Boolean);
    const over = replayHere(blocked.workflow, key.id("a"), false).catch((error) => error.message);
    await until(async () => state.isHeld, Boolean);
    await recorded(key.id("a"), "act");
    state.recorded = true;
    expect(await over).toContain("Another replay");
    expect(await key.stands(({ ahead }) => ahead.length > 0)).toMatchObject({ state: "waiting", ahead: [{ failed: null }] });
    state.go = true;
    expect(await key.seenBy("b ends")).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  });

  it("L12 reports no end to the lane of its command after an operator's retry", async () => {
    const key = new TurnKey(blocked);
    const id = key.id("a");
    const state = { begun: 0, isHeld: false, goesOn: false, isOver: false };
    key.run("a", async ({ step }) => {
      const nth = state.begun++;
      if (nth === 0) await step.read("wait for the older replay", () => held(() => state.isHeld));
      state.isHeld ||= nth === 1;
      if (nth === 1) await held(() => state.goesOn);
      if (nth < 2) throw notRetryable("The run has failed.");
      await step.read("wait", () => held(() => state.isOver));
    });
    await key.ask("a");
    await until(async () => state.begun === 1, Boolean);
    const over = replayHere(blocked.workflow, id, false).catch((error) => error.message);
    expect(await reaches(id, "errored")).toBe("errored");
    await instances.act(probeEnv, operator, "retry", id, { reason: "mended" });
    await until(async () => state.begun === 3, Boolean);
    const reports = dieAt("L12 ended, lane not notified", id);
    state.goesOn = true;
    await over;
    expect([reports.died(), await statusOf(id)]).toEqual([false, "running"]);
    state.isOver = true;
    expect(await reaches(id, "complete")).toBe("complete");
  });

  it.each(["restart", "undo", "cancel"] as const)("W33 does not end the run that an operator's %s has begun", async (verb) => {
    const undo = { isHeld: false, go: false };
    const state = { go: false };
    const newer = async ({ step }: LabCall) => {
      await step.commit("act", () => ({}), { undo: () => ({}) });
      // An undo repeats this read, because a later effect is recorded.
      await step.read("look", () => {
        undo.isHeld = verb !== "restart";
        return held(() => verb === "restart" || undo.go || !state.go);
      });
      await step.commit("second", () => ({}), { undo: () => ({}) });
      await step.read("wait", () => held(() => state.go));
      return "newer";
    };
    const { instanceId, begin, release } = await twoReplays({ older: fails, newer, winner: "b" });
    await begin();
    await recorded(instanceId, "second");
    if (verb === "undo") {
      state.go = true;
      expect(await reaches(instanceId, "complete")).toBe("complete");
      await platformReaches(instanceId, "complete");
    }
    undo.isHeld = false;
    await instances.act(probeEnv, operator, verb, instanceId, { reason: "called off" });
    state.go = verb !== "restart";
    await until(
      () => rows("SELECT 1 FROM millrace_instances WHERE id = ?1 AND run = 2 AND status = 'running'", instanceId),
      (found) => found.length === 1,
    );
    await release();
    expect(await statusOf(instanceId)).toBe("running");
    Object.assign(state, { go: true });
    undo.go = true;
    expect(await reaches(instanceId, "complete", "errored", "terminated")).toBe(verb === "restart" ? "complete" : "terminated");
  });

  it("I17 does not complete a run that a newer replay has reported as failed", async () => {
    const { newer } = failing();
    const { instanceId, begin, release } = await twoReplays({ older: completes, newer });
    await begin();
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await platformReaches(instanceId, "errored");
    await release();
    expect([await statusOf(instanceId), (await errorOf(instanceId))?.message]).toEqual(["errored", "The newer replay has failed."]);
  });

  it("W25 begins no effect after another replay has completed the run, and the platform reports the run as complete", async () => {
    const { done, state, newer: acts } = goingOn();
    const pause = { isHeld: false, go: false };
    const newer = async (call: LabCall, winner: string) => {
      pause.isHeld = true;
      await held(() => pause.go);
      return acts(call, winner);
    };
    const { instanceId, begin, release } = await twoReplays({ older: completes, newer });
    await begin();
    await until(async () => pause.isHeld, Boolean);
    expect(await release()).toEqual({ status: "fulfilled", value: "older" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    state.go = true;
    pause.go = true;
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect([await statusOf(instanceId), done]).toEqual(["complete", []]);
    expect(await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([]);
  });

  it("I17 returns its result to the platform, although another replay has completed the run", async () => {
    const pause = { isHeld: false, go: false };
    const newer = async ({ step }: LabCall) => {
      pause.isHeld = true;
      await held(() => pause.go);
      await step.sleep("a moment", "1 second");
      return "newer";
    };
    const { instanceId, begin, release } = await twoReplays({ older: completes, newer });
    await begin();
    await until(async () => pause.isHeld, Boolean);
    await release();
    expect(await reaches(instanceId, "complete")).toBe("complete");
    pause.go = true;
    expect(await outputOf(instanceId)).toBe("newer");
  });

  it("W33 records its end if another replay has recorded the same steps in the same order since its last read", async () => {
    const state = { go: false };
    const older = async ({ step }: LabCall) => {
      await step.commit("act", () => ({}));
      // After a sleep, the end is not left to the keeper.
      await step.sleep("a moment", "1 second");
      await held(() => state.go);
      return "older";
    };
    const { instanceId, release } = await twoReplays({ older, newer: completes });
    const over = release();
    await recorded(instanceId, "act");
    await probeEnv.DB.prepare("UPDATE millrace_inbox SET token = 'another', updated_at = updated_at + 1 WHERE instance_id = ?1")
      .bind(instanceId)
      .run();
    state.go = true;
    expect(await over).toEqual({ status: "fulfilled", value: "older" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });
});
