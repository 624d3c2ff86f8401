import { instances } from "millrace/operate";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type LabCall, labs } from "../../probe/lab.ts";
import { mode } from "../../probe/mode.ts";
import { resetEngines, resetPrefixes, type Strike, struck } from "../../probe/strikes.ts";
import { asking } from "../asking.ts";
import { addressOf } from "../callbacks/heard.ts";
import { fresh, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { back, effect, ONCE, resolve } from "../operate/operating.ts";
import { afterRounds, strike } from "./struck.ts";

const RESET = "Durable Object reset because its code was updated.";
const reset = (place: Pick<Strike, "call"> & Partial<Strike>): Strike => ({
  when: "before",
  says: new Error(RESET),
  engine: "lives",
  ...place,
});

/** Executes a lab run with these planned rejections of the platform to its end. */
async function struckRun(code: (call: LabCall) => Promise<unknown>, ...plan: Strike[]) {
  const name = fresh("struck");
  strike(name, ...plan);
  const { instanceId } = await runLab(code, { name });
  const [status] = await afterRounds([instanceId]);
  return { name, instanceId, status, strikes: struck.get(name)?.length ?? 0 };
}

const timesRestarted = async (id: string) =>
  (await rows<{ broken_off: string | null }>("SELECT broken_off FROM millrace_instances WHERE id = ?1", id))[0]?.broken_off;

describe.each(["platform", "inline"] as const)("With %s steps", (steps) => {
  beforeEach(() => {
    mode.steps = steps;
  });
  afterEach(() => {
    mode.steps = "platform";
  });

  it("W34 an attempt that throws an error with a text of the platform fails its step again in every replay", async () => {
    const heard: string[] = [];
    const own = effect("keyed", () => Promise.reject(new Error(RESET)));
    const { status, strikes, instanceId } = await struckRun(
      async ({ step }) => {
        const told = (error: Error) => heard.push(error.message);
        await step.read("look", () => Promise.reject(new Error("Network connection lost.")), ONCE).catch(told);
        await step.effect("call", own, {}).catch(told);
        await step.sleep("rest", 20);
      },
      reset({ call: "sleep", engine: "dies" }),
    );
    expect([status, strikes, await errorOf(instanceId)]).toEqual(["complete", 1, null]);
    expect(heard).toEqual(["Network connection lost.", RESET, "Network connection lost.", RESET]);
  });

  it("W34 an attempt that always throws an error with a text of the platform fails its run", async () => {
    const { status, instanceId } = await struckRun(({ step }) => step.read("look", () => Promise.reject(new Error(RESET)), ONCE));
    expect([status, await timesRestarted(instanceId)]).toEqual(["errored", null]);
    expect(await errorOf(instanceId)).toMatchObject({ step: "look", code: "step_failed", message: RESET, attempts: 1 });
  });

  it.each([
    ["WorkflowTimeoutError", "Execution timed out after 100ms"],
    ["WorkflowInternalError", "Step look-1 output is too large. Maximum allowed size is 1MiB."],
    ["WorkflowFatalError", "The limit of 10000 steps has been reached. This limit can be changed in your worker configuration."],
    ["WorkflowFatalError", 'Step config for "look" is in a invalid format.'],
  ])("W34 a limit or time-out of the platform fails the step: %s: %s", async (type, said) => {
    const says = Object.assign(new Error(said), { name: type });
    const { status, instanceId } = await struckRun(
      async ({ step }) =>
        step.read("look", async () => 1, ONCE).catch((error: Error) => step.commit("instead", () => ({ output: error.message }))),
      reset({ call: "do", step: "look", says }),
    );
    expect([status, await timesRestarted(instanceId)]).toEqual(["complete", null]);
    expect(await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([{ step: "instead" }]);
  });

  it.each([
    ["do", "behind"],
    ["sleep", "before"],
  ] as const)("W34 an unknown error of the platform is not thrown to the code: %s %s", async (call, when) => {
    const { status, strikes, instanceId } = await struckRun(
      async ({ step }) => {
        await step.read("look", async () => 1, ONCE).catch(() => step.commit("instead", () => ({})));
        await step.sleep("rest", 20).catch(() => step.commit("instead", () => ({})));
      },
      reset({ call, when, says: new Error("A new error of the platform.") }),
    );
    expect([status, strikes]).toEqual(["complete", 1]);
    expect(await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([]);
  });

  it("W34 an unknown error after a failed last attempt means that the step failed, and a reset of the platform does not", async () => {
    for (const [says, tries] of [
      [new Error("A new error of the platform."), 1],
      [new Error(RESET), 2],
    ] as const) {
      let tried = 0;
      const bank = effect("keyed", () => Promise.reject(new Error(`Declined ${++tried}.`)));
      const { instanceId, status } = await struckRun(
        ({ step }) => step.effect("pay", bank, {}).catch(() => step.commit("instead", () => ({ output: 1 }))),
        reset({ call: "do", step: "pay", when: "behind", says }),
      );
      expect([says.message, tried, status, await timesRestarted(instanceId)]).toEqual([
        says.message,
        tries,
        "complete",
        tries === 1 ? null : "[1,1]",
      ]);
    }
  });

  it("W34 a rejected wait for an operator's answer and a rejected undo are restarted by the keeper", async () => {
    const world = { did: 0, undone: 0 };
    const undo = back(async () => void world.undone++);
    const once = effect("once", async () => Promise.reject(new Error(`Lost ${++world.did}.`)), { undo });
    const name = fresh("struck");
    strike(name, reset({ call: "waitForEvent", when: "under way" }));
    const { instanceId } = await runLab(({ step }) => step.effect("once", once, {}), { name });
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    await until(
      async () => struck.get(name)?.length,
      (count) => count === 1,
    );
    await resolve(instanceId, "once", { verb: "confirm", output: "done" });
    expect(await afterRounds([instanceId])).toEqual(["complete"]);
    strike(name, reset({ call: "do" }));
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    await until(
      () => statusOf(instanceId),
      (status) => status !== "complete",
    );
    expect(await afterRounds([instanceId])).toEqual(["terminated"]);
    expect([struck.get(name)?.length, world]).toEqual([2, { did: 1, undone: 1 }]);
  });
});

it("W34 a run ends with the platform's last error after 12 failed restarts, and a retry starts the count again", async () => {
  const { instanceId, name, status, strikes } = await struckRun(
    ({ step }) => step.read("look", async () => 1).catch(() => step.commit("instead", () => ({}))),
    reset({ call: "do", step: "look", times: 100 }),
  );
  expect([status, strikes, await timesRestarted(instanceId)]).toEqual(["errored", 13, "[1,12]"]);
  expect(await errorOf(instanceId)).toMatchObject({
    code: "step_failed",
    message: `The platform ended the run 13 times with its own error, and no step failed. Retry it when the platform works again. The last error: ${RESET} (millrace broke off at do look)`,
  });
  strike(name, reset({ call: "do", step: "look" }));
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the platform works again" });
  expect(await afterRounds([instanceId])).toEqual(["complete"]);
  expect([await timesRestarted(instanceId), await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1", instanceId)]).toEqual([
    "[2,1]",
    [],
  ]);
});

it("W34 a callback address is not called for an end by the platform's own error, only for the run's end", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  const name = fresh("struck");
  strike(name, reset({ call: "sleep" }));
  labs.set(name, ({ step }) => step.sleep("rest", 20));
  const { body } = await caller.post("/v1/commands", { type: "lab.requested", payload: { name }, callback_url: url });
  const id = body.instance_id;
  expect(await afterRounds([id])).toEqual(["complete"]);
  expect(struck.get(name)?.length).toBe(1);
  expect((await heard(1)).map((one) => one.id)).toEqual([`${id}-1-complete`]);
});

it("W34 the keeper soon checks a sleeping run that the platform has ended, although its check was due a day later", async () => {
  const name = fresh("struck");
  resetPrefixes.add(name);
  const { instanceId } = await runLab(({ step }) => step.approve("may it", { question: "Go on?" }), { name });
  await until(
    () => statusOf(instanceId),
    (status) => status === "waiting",
  );
  await probeEnv.DB.prepare("UPDATE millrace_instances SET check_at = check_at + 86400000 WHERE id = ?1").bind(instanceId).run();
  expect(
    resetEngines(
      name,
      () => new Error(RESET),
      () => "lives",
    ),
  ).toMatchObject({ runs: 1, waitForEvent: 1 });
  const dueIn = async () =>
    Number(
      (
        await rows<{ due: number }>("SELECT check_at - unixepoch('subsec') * 1000 AS due FROM millrace_instances WHERE id = ?1", instanceId)
      )[0]?.due,
    );
  expect(await until(dueIn, (ms) => ms < 60_000)).toBeLessThan(60_000);
  resetPrefixes.delete(name);
});
