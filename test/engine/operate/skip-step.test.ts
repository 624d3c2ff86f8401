import { defineStep, notRetryable } from "millrace";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { dieAt, operator, probeEnv, rows } from "../harness.ts";
import { outputOf, runLab } from "../lab.ts";
import { back, effect, failed, ONCE } from "./operating.ts";
import { comes, kept, play, scene } from "./scene.ts";

const skip = (id: string, step: string, output: unknown, item = "") =>
  instances.act(probeEnv, operator, "skip", id, { step, item, output, reason: "done by hand" });
const standing = (id: string) => instances.get(probeEnv, operator, id);

const pays = (of: "keyed" | "natural" | "lookup" | "once") => {
  const more = {
    ...ONCE,
    output: z.object({ paid: z.number() }),
    run: () => Promise.reject(notRetryable("The bank refuses the payment.")),
  };
  return of === "lookup" ? defineStep({ effect: of, lookup: async () => undefined, ...more }) : defineStep({ effect: of, ...more });
};

describe("A skip of the step that failed its instance", () => {
  it.each(["keyed", "natural", "lookup", "once"] as const)(
    "a failed %s step can be skipped with an output, also by the dry run, and the run continues after that step",
    async (of) => {
      const its = scene();
      const { instanceId: id } = await runLab(
        async ({ step }) => {
          await its.act(step, "a");
          const { paid } = await step.effect("pay", pays(of), {});
          await its.act(step, "b");
          return paid;
        },
        { name: its.name },
      );
      await failed(id);
      const planned = (output?: unknown) => instances.plan(probeEnv, operator, "skip", id, { step: "pay", output });
      const missing = { code: "invalid_payload", message: expect.stringMatching(/^The output is missing/) };
      expect((await planned()).refused).toEqual(missing.message);
      await expect(skip(id, "pay", undefined)).rejects.toMatchObject(missing);
      expect(await planned({ paid: 7 })).toMatchObject({
        refused: null,
        from: "pay",
        effects: [
          { step: "a", verdict: "kept" },
          { step: "pay", verdict: "skipped" },
        ],
      });
      await skip(id, "pay", { paid: 7 });
      expect(await kept(id, "complete", "errored")).toBe("complete");
      expect(await outputOf(id)).toBe(7);
      expect(its.log).toEqual(["a", "b"]);
      const shown = await instances.effects(probeEnv, operator, id);
      expect(shown.map(({ step, state, skipped }) => ({ step, state, skipped }))).toEqual([
        { step: "a", state: "done", skipped: false },
        { step: "pay", state: "done", skipped: true },
        { step: "b", state: "done", skipped: false },
      ]);
      expect(await rows("SELECT verb, result, reason FROM millrace_actions WHERE instance_id = ?1", id)).toEqual([
        { verb: "skip_step", result: "applied", reason: "done by hand" },
      ]);
    },
  );

  it("a failed commit or read can be skipped, and nothing of it is written", async () => {
    const { instanceId: id } = await runLab(async ({ step }) => {
      const read = await step.read("look", () => Promise.reject<number>(notRetryable("Gone.")));
      const written = await step.commit("write", () => Promise.reject<{ output: number }>(notRetryable("Broken.")));
      return [read, written];
    });
    await failed(id);
    await skip(id, "look", 1);
    await failed(id);
    expect((await standing(id)).error).toMatchObject({ step: "write" });
    await skip(id, "write", 2);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(await outputOf(id)).toEqual([1, 2]);
  });

  it("W17 an operator can correct the output of a skipped step that the following code cannot use; an undo does not undo that step", async () => {
    const its = scene();
    const { instanceId: id } = await runLab(
      async ({ step }) => {
        const paid = await step.effect(
          "pay",
          { ...ONCE, effect: "once", run: () => Promise.reject<{ id: string }>(notRetryable("The bank refuses the payment.")) },
          {},
        );
        await its.act(step, "b");
        return paid.id.toUpperCase();
      },
      { name: its.name },
    );
    await failed(id);
    await skip(id, "pay", null);
    await failed(id);
    const { error } = await standing(id);
    const [effect] = await instances.effects(probeEnv, operator, id);
    const path = `POST /v1/effects/${effect?.key}/confirm`;
    expect(error?.hint).toContain('The run used the output that an operator gave for "pay"');
    expect(error?.hint).toContain(path);
    expect((await instances.plan(probeEnv, operator, "skip", id, { step: "pay" })).refused).toContain(path);
    expect((await instances.plan(probeEnv, operator, "retry", id, {})).note).toContain("A retry keeps the output that");

    await effects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: { id: "p7" } }, "its own id");
    await instances.act(probeEnv, operator, "retry", id, { reason: "the output is corrected" });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(await outputOf(id)).toBe("P7");
    expect(its.log).toEqual(["b"]);
    expect((await instances.effects(probeEnv, operator, id))[0]).toMatchObject({ step: "pay", state: "done", skipped: true });
  });

  it("after an operator has corrected the output of a skipped step, a retry starts at that step with the new output", async () => {
    const mails: unknown[] = [];
    let isOpen = false;
    const mail = effect("natural", async ({ input }) =>
      isOpen ? mails.push(input) : Promise.reject(notRetryable("The mailbox is full.")),
    );
    const { instanceId: id } = await runLab(async ({ step }) => {
      const { paid } = await step.effect("pay", pays("keyed"), {});
      await step.effect("mail", mail, paid);
    });
    await failed(id);
    await skip(id, "pay", { paid: 6 });
    expect(await kept(id, "complete", "errored")).toBe("errored");
    await failed(id);
    expect((await standing(id)).error).toMatchObject({ step: "mail" });
    const [pay] = await instances.effects(probeEnv, operator, id);
    await effects.resolve(probeEnv, operator, pay?.key ?? "", { verb: "confirm", output: { paid: 7 } }, "a slip");
    expect(await instances.plan(probeEnv, operator, "retry", id, {})).toMatchObject({
      from: "pay",
      note: expect.stringContaining('"pay"'),
    });
    isOpen = true;
    await instances.act(probeEnv, operator, "retry", id, { reason: "mended" });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(mails).toEqual([7]);
  });

  it("a skip with an invalid output fails the run again, and a later skip with a valid output continues it", async () => {
    const { instanceId: id } = await runLab(async ({ step }) => (await step.effect("pay", pays("keyed"), {})).paid);
    await failed(id);
    await skip(id, "pay", { paid: "seven" });
    await failed(id);
    expect((await standing(id)).error).toMatchObject({ step: "pay", message: expect.stringContaining("is not valid") });
    await skip(id, "pay", { paid: 7 });
    expect(await kept(id, "complete", "errored")).toBe("complete");
  });

  it("an undo does not undo a skipped effect, because it did not happen", async () => {
    const its = scene();
    const id = await play(its, async (step) => {
      await its.act(step, "a");
      its.state.lose = true;
      await step.effect(
        "pay",
        effect("natural", () => Promise.reject(notRetryable("Gone.")), { undo: back(async () => its.log.push("undo pay")) }),
        {},
      );
    });
    await failed(id);
    its.state.lose = false;
    await skip(id, "pay", { paid: 7 });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await instances.act(probeEnv, operator, "undo", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(its.log).toEqual(["a", "undo a(its a)"]);
  });

  it("a skip is executed by the keeper when the process dies after the commit", async () => {
    const { instanceId: id } = await runLab(async ({ step }) => (await step.effect("pay", pays("keyed"), {})).paid);
    await failed(id);
    dieAt("skip committed, not applied");
    await expect(skip(id, "pay", { paid: 7 })).rejects.toThrow("Died");
    expect(await kept(id, "complete", "errored")).toBe("complete");
  });
});

it("a skip is refused for a step that did not fail, and for an instance that did not fail", async () => {
  const its = scene();
  const { instanceId: id } = await runLab(
    async ({ step }) => {
      await its.act(step, "a");
      return (await step.effect("pay", pays("keyed"), {})).paid;
    },
    { name: its.name },
  );
  await failed(id);
  for (const step of ["a", "b"]) {
    expect((await instances.plan(probeEnv, operator, "skip", id, { step })).refused).not.toBeNull();
    await expect(skip(id, step, 1)).rejects.toMatchObject({ code: "invalid_transition" });
  }
  await expect(skip(id, "pay", undefined)).rejects.toMatchObject({ code: "invalid_payload", detail: { issues: [{ path: "output" }] } });
  const clicks = await Promise.allSettled([skip(id, "pay", { paid: 7 }), skip(id, "pay", { paid: 8 })]);
  expect(clicks.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  expect(await kept(id, "complete", "errored")).toBe("complete");
  await expect(skip(id, "pay", { paid: 9 })).rejects.toMatchObject({ detail: { from: "complete" } });
  const results = await rows<{ result: string }>("SELECT result FROM millrace_actions WHERE instance_id = ?1", id);
  expect(results.filter(({ result }) => result === "applied")).toHaveLength(1);
  expect(results).toHaveLength(5);
});

it("a skip is refused when the run was retried and failed at another step while the skip stored its output", async () => {
  const state = { paid: false };
  const { instanceId: id } = await runLab(async ({ step }) => {
    const pay = async () => (state.paid ? 1 : Promise.reject(notRetryable("The bank refuses the payment.")));
    await step.effect("pay", effect("keyed", pay), {});
    await step.effect(
      "send",
      effect("keyed", () => Promise.reject(notRetryable("The post office refuses the mail."))),
      {},
    );
  });
  await failed(id);
  // The output is so large that it is stored in a bucket. The run is retried during that write.
  const put = async (...given: Parameters<R2Bucket["put"]>) => {
    state.paid = true;
    await instances.act(probeEnv, operator, "retry", id, { reason: "it is back" });
    await failed(id);
    return probeEnv.PAYLOADS.put(...given);
  };
  const slow = { ...probeEnv, PAYLOADS: { put } as R2Bucket };
  const large = "x".repeat(200_000);
  await expect(instances.act(slow, operator, "skip", id, { step: "pay", output: large, reason: "by hand" })).rejects.toMatchObject({
    code: "invalid_transition",
  });
  expect(await standing(id)).toMatchObject({ run: 2, status: "errored", error: { step: "send" } });
});

it("a step that failed after a pause is reported under the name that the code uses", async () => {
  const its = scene();
  const id = await play(its, async (step) => {
    await its.act(step, "a", "once", "slow");
    const gone = () => Promise.reject(notRetryable("Gone."));
    const ends = await Promise.allSettled([step.read("b", gone), step.read("c", gone)]);
    if (ends.some(({ status }) => status === "rejected")) throw new Error("One of the steps has failed.");
  });
  await comes(() => its.log.includes("a"));
  await instances.act(probeEnv, operator, "pause", id, { reason: "let me look" });
  its.state.go = true;
  const isHeld = async () => (await instances.steps(probeEnv, operator, await standing(id))).steps.some(({ state }) => state === "paused");
  await comes(isHeld);
  await instances.act(probeEnv, operator, "resume", id, { reason: "on again" });
  await failed(id);
  for (const step of ["b", "c"])
    expect(await instances.plan(probeEnv, operator, "skip", id, { step, output: null })).toMatchObject({ refused: null, from: step });
  const wrong = { message: expect.stringContaining('It has: "a", "b", "c".') };
  await expect(instances.plan(probeEnv, operator, "retry", id, { from: "b · after pause 1" })).rejects.toMatchObject(wrong);
});
