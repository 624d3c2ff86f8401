import { defineStep, defineWorkflow, type EffectCall, ids } from "millrace";
import { instances } from "millrace/operate";
import { Recorder } from "millrace/worker";
import { expect, it, onTestFinished, vi } from "vitest";
import { recorderOf } from "../../../../packages/millrace/src/recorder/client.ts";
import { KnownReplays } from "../../../../packages/millrace/src/recorder/recorder.ts";
import { INLINE_MS, STRETCH } from "../../../../packages/millrace/src/replay/inline.ts";
import { lab } from "../../../probe/lab.ts";
import { dieAt, fresh, operator, probeEnv, reaches, until } from "../../harness.ts";
import { errorOf, held, outputOf, platformReaches, refuse, restartLab } from "../../lab.ts";
import { world } from "../world.ts";
import { inline, onPlatform, runIn, upstream, withRecordersThatKnow } from "./running.ts";

withRecordersThatKnow();

it("an inline step becomes a platform step from its second attempt on, with no more attempts than its policy allows", async () => {
  const { calls, state, definition } = upstream();
  state.fails = 1;
  const id = await inline(({ step }) => step.effect("act", definition, "a"));
  expect(await reaches(id, "complete")).toBe("complete");
  expect(calls).toEqual(["a", "a"]);
  const { steps } = await instances.history(probeEnv, { id, workflow: "lab" });
  expect(steps).toMatchObject([
    {
      name: "act",
      attempts: [
        { attempt: 1, error: { message: expect.stringContaining("not yet") } },
        { attempt: 2, error: null },
      ],
    },
  ]);

  const hopeless = upstream();
  hopeless.state.fails = 9;
  const failed = await inline(({ step }) => step.effect("act", hopeless.definition, "b"));
  expect(await errorOf(failed)).toMatchObject({ step: "act", attempts: 3 });
  expect(hopeless.calls).toHaveLength(3);
});

it("a slow inline attempt continues as a platform step, and its effect happens once", async () => {
  const { calls, state, definition } = upstream();
  state.takesMs = INLINE_MS + 500;
  const id = await inline(({ step }) => step.effect("act", definition, "a"));
  expect(calls).toEqual(["a"]);
  expect(await onPlatform(id)).toEqual(["act"]);
  // The step is now a platform step, and its duration includes the inline part.
  const { steps } = await instances.steps(probeEnv, operator, await instances.get(probeEnv, operator, id));
  expect(steps).toMatchObject([{ name: "act", mode: "platform", state: "complete", attempts: [{ attempt: 1 }] }]);
  const { started_at = null, ended_at = null, attempts = [] } = steps[0] ?? {};
  expect(Date.parse(ended_at ?? "") - Date.parse(started_at ?? "")).toBeGreaterThanOrEqual(INLINE_MS + 450);
  expect(attempts[0]?.started_at).toBe(started_at);
});

it("W15 a replay reads the outcomes of inline steps from the inbox, and executes and bills nothing", async () => {
  const { calls, definition } = upstream();
  const large = "l".repeat(5000);
  const id = await inline(async ({ step }) => [
    await step.effect("act", definition, "a"),
    await step.commit("small", () => ({ output: "kept" })),
    await step.commit("large", () => ({ output: large })),
    (await step.commit("nothing", () => ({}))) === undefined,
  ]);
  expect(await restartLab(id)).toBe("complete");
  expect(calls).toEqual(["a"]);
  expect(await onPlatform(id)).toEqual([]);
  expect(await outputOf(id)).toEqual(["a", "kept", large, true]);
});

it("a later replay executes a step inline only when no earlier replay can have begun that step", async () => {
  const { calls, definition } = upstream();
  const state = { broken: true };
  const { instanceId } = await runIn("inline", async ({ step }) => {
    await step.effect("done", definition, "a");
    await step.commit("fails", () => (state.broken ? refuse() : {}), { retries: { limit: 0, delay: 10 } });
    await step.effect("beside", definition, "b");
    await Promise.all([step.effect("one", definition, "c"), step.effect("two", definition, "d")]);
  });
  await platformReaches(instanceId, "errored");
  await reaches(instanceId, "errored");
  expect(await onPlatform(instanceId)).toEqual(["fails"]);
  state.broken = false;
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(calls).toEqual(["a", "b", "c", "d"]);
  // The retry restarted the run at the failed step, and the later steps were new.
  expect(await onPlatform(instanceId)).toEqual(["fails"]);
});

it.each([
  { effect: "natural", fails: 0 },
  { effect: "natural", fails: 1 },
  { effect: "lookup", fails: 0 },
] as const)(
  "W25 no later step is executed inline after a $effect step, failed $fails times, that another replay has recorded meanwhile",
  async ({ effect, fails }) => {
    const { calls, state, definition } = upstream(effect);
    const world = { broken: true };
    const { instanceId: id } = await runIn("inline", async ({ step }) => {
      await step.commit("fails", () => (world.broken ? refuse() : {}), { retries: { limit: 0, delay: 10 } });
      const taken = await step.effect("taken", definition, "a");
      await step.effect("behind", definition, "b");
      return taken;
    });
    await platformReaches(id, "errored");
    await reaches(id, "errored");
    Object.assign(world, { broken: false });
    Object.assign(state, { fails, takesMs: effect === "natural" ? 600 : 0 });
    const key = { instanceId: id, step: "taken", item: "", generation: 1 };
    const before = { position: 9, after: '[0,"fails"]', caught: null, replay: "", readAt: null, saysItRuns: false };
    const other = { key, ...before, class: effect, token: "another pass", epoch: 1 };
    if (effect === "lookup") await recorderOf(probeEnv, id).claim(other, 15_000, null);
    const claims = vi.spyOn(Recorder.prototype, "claim");
    onTestFinished(() => claims.mockRestore());
    await instances.act(probeEnv, operator, "retry", id, { reason: "mended" });
    // A lookup effect receives the claim of the other replay. A natural effect executes for 600 ms.
    const claimed = () => claims.mock.settledResults.some(({ value }) => value?.entry?.token === "another pass");
    await held(() => (effect === "lookup" ? claimed() : calls.length === 1));
    const outcome = { output: '"theirs"', outputRef: null, statements: [], messages: [], error: null };
    expect((await recorderOf(probeEnv, id).record(other, outcome)).mine).toBe(true);
    expect(await reaches(id, "complete")).toBe("complete");
    expect(await outputOf(id)).toBe("theirs");
    expect(await onPlatform(id)).toEqual(expect.arrayContaining(["behind"]));
  },
);

it("a young run that another process has begun does not execute its first step inline, because the recorder remembers each replay", async () => {
  const name = fresh("inline");
  const id = ids.instance("acme", "lab", name);
  expect(await recorderOf(probeEnv, id).begin(id, "another", Date.now() + 60_000)).toBe(true);
  const { definition } = upstream();
  const { instanceId } = await runIn(
    "inline",
    async ({ step }) => {
      await step.effect("possibly begun", definition, "a");
      await step.effect("is new", definition, "b");
    },
    name,
  );
  expect(instanceId).toBe(id);
  await reaches(instanceId, "complete");
  expect(await onPlatform(instanceId)).toEqual(["possibly begun"]);
});

it("a retry executes no step inline beside steps that an earlier replay may have begun", async () => {
  const { calls, definition } = upstream();
  const state = { broken: true };
  const { instanceId } = await runIn("inline", async ({ step }) => {
    const branch = async (name: "left" | "right") => {
      await step.read(`${name} reads` as "left reads", async () => 1);
      if (name === "left" && state.broken) throw new Error("A setting is missing.");
      await step.effect(`${name} acts` as "left acts", definition, name);
    };
    await Promise.all([branch("left"), branch("right")]);
  });
  await platformReaches(instanceId, "errored");
  await reaches(instanceId, "errored");
  state.broken = false;
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(calls.toSorted()).toEqual(["left", "right"]);
  expect(await onPlatform(instanceId)).toContain("left acts");
});

it("a long sequence of inline steps contains one platform step", async () => {
  const id = await inline(async ({ step }) => {
    for (let nth = 0; nth < STRETCH.steps + 2; nth++) await step.commit("each", () => ({}), { key: String(nth) });
  });
  expect(await onPlatform(id)).toEqual([`each [${STRETCH.steps}]`]);
});

it("a natural effect with an undo handler is a platform step, so that a cancel can detect that it has begun", async () => {
  const { act } = world();
  const id = await inline(async ({ step }) => {
    await act(step, "a");
    await step.commit("row", () => ({}), { undo: () => ({}) });
  });
  expect(await onPlatform(id)).toEqual(["a"]);
});

it("W17 an inline step in doubt is recorded as in doubt on the platform, as any other step", async () => {
  const once = defineStep({ effect: "once", run: async (_: EffectCall<null>) => Promise.reject(new Error("no answer")) });
  const { instanceId } = await runIn("inline", ({ step }) => step.effect("mail", once, null));
  expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
  expect(
    await until(
      () => onPlatform(instanceId),
      (names) => names.length === 2,
    ),
  ).toEqual(["mail", "mail · in doubt 1"]);
});

it("W03 an inline attempt that dies before its record is followed by an attempt as a platform step", async () => {
  const name = fresh("inline");
  const { calls, definition } = upstream();
  const { died } = dieAt("W03 effect done, not recorded", name);
  const { instanceId } = await runIn("inline", ({ step }) => step.effect("act", definition, "a"), name);
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(died()).toBe(true);
  expect(calls).toEqual(["a", "a"]);
  expect(await onPlatform(instanceId)).toEqual(["act"]);
});

it("a step can set its own mode, and an invalid mode is refused", async () => {
  const { instanceId } = await runIn("platform", async ({ step }) => {
    await step.commit("inline", () => ({}), { steps: "inline" });
    await step.commit("platform", () => ({}));
  });
  await reaches(instanceId, "complete");
  expect(await onPlatform(instanceId)).toEqual(["platform"]);
  expect(() => defineWorkflow({ name: "odd", on: lab.on, steps: "quick" as "inline", run: async () => undefined })).toThrow(
    /"platform" or "inline"/,
  );
  const odd = await inline(({ step }) => step.commit("odd", () => ({}), { steps: "quick" as "inline" }));
  expect(await errorOf(odd)).toMatchObject({ code: "config_invalid" });
});

it("a recorder object that is younger than the instance does not report a replay as the first", async () => {
  const passes = new KnownReplays();
  const later = Date.now() + 1500;
  expect(passes.isFirst("old", "one", Date.now())).toBe(false);
  expect(passes.isFirst("new", "one", later)).toBe(true);
  expect(passes.isFirst("new", "one", later)).toBe(true);
  expect(passes.isFirst("new", "another", later)).toBe(false);
  expect(passes.isFirst("new", "one", later)).toBe(true);
});

it("a recorder object that started while the clock was ahead reports first replays one second after the correction, and none before", () => {
  const right = Date.now();
  const time = vi.spyOn(Date, "now").mockReturnValue(right + 3_600_000);
  onTestFinished(() => time.mockRestore());
  const passes = new KnownReplays();
  expect(passes.isFirst("ahead", "one", right + 3_600_000)).toBe(false);
  time.mockReturnValue(right);
  expect(passes.isFirst("old", "one", right)).toBe(false);
  time.mockReturnValue(right + 1600);
  expect(passes.isFirst("new", "one", right + 1500)).toBe(true);
  expect(passes.isFirst("new", "another", right + 1500)).toBe(false);
  expect(passes.isFirst("old", "one", right)).toBe(false);
});

it("a recorder object remembers a replay for more than a minute, for any number of later requests", () => {
  const time = vi.spyOn(Date, "now").mockReturnValue(1_000_000);
  onTestFinished(() => time.mockRestore());
  const passes = new KnownReplays();
  expect(passes.isFirst("young", "one", 1_070_000)).toBe(true);
  time.mockReturnValue(1_061_000);
  expect(passes.isFirst("another", "one", 1_070_000)).toBe(true);
  expect(passes.isFirst("young", "another", 1_070_000)).toBe(false);
});

it("a sequence of inline steps with many fetch calls contains one platform step, and the next step is inline again", async () => {
  const { definition } = upstream();
  const busy = defineStep({
    effect: "natural",
    async run({ fetch: call }: EffectCall<null>) {
      // The calls read a data URL, so they do not leave the process.
      for (let nth = 0; nth < STRETCH.calls; nth++) await call("data:,").catch(() => undefined);
    },
  });
  const id = await inline(async ({ step }) => {
    await step.effect("busy", busy, null);
    await step.effect("behind", definition, "a");
    await step.effect("later", definition, "b");
  });
  expect(await onPlatform(id)).toEqual(["behind"]);
});

it("an inline step with an output that could not be stored fails again in every replay", async () => {
  const large = defineStep({
    effect: "natural",
    retries: { limit: 0, delay: 10 },
    run: async (_: EffectCall<null>) => "l".repeat(5_000_000),
  });
  const id = await inline(({ step }) => step.effect("large", large, null));
  expect(await errorOf(id)).toMatchObject({ step: "large", code: "output_too_large" });
  expect(await restartLab(id)).toBe("errored");
});
