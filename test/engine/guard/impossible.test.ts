import { defineStep, type Steps, sql } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { ProbeSignal } from "../../probe/messages.ts";
import { operator, probeEnv, reaches } from "../harness.ts";
import { errorOf, held, outputOf, platformReaches, runLab } from "../lab.ts";
import { back, effect, ended, resolve, retry } from "../operate/operating.ts";

it.each([
  [
    "items of step.map that are not an array",
    "config_invalid",
    "[...items]",
    (step) => step.map(new Set(["a"]) as never, { key: String }, async () => 1),
  ],
  [
    "a subject that is too long for an event",
    "invalid_payload",
    "at most 500",
    (step) => step.waitFor("wait", ProbeSignal, { subject: "x".repeat(600) }),
  ],
  [
    "a subject with half of a surrogate pair",
    "invalid_payload",
    "surrogate pair",
    (step) => step.waitFor("wait", ProbeSignal, { subject: "\ud83d" }),
  ],
  [
    "an invalid default answer of an approval",
    "invalid_payload",
    "neither",
    (step) => step.approve("ask", { question: "Go?", otherwise: "no" as never }),
  ],
  [
    "an unknown back-off",
    "config_invalid",
    "exponential",
    (step) => step.read("look", async () => 1, { retries: { limit: 1, delay: 1, backoff: "odd" as never } }),
  ],
  [
    "a wait without a subject",
    "invalid_payload",
    "is missing",
    (step) => step.waitFor("wait", ProbeSignal, { subject: undefined as never }),
  ],
  [
    "details of an approval that are not JSON",
    "invalid_payload",
    "plain, small data",
    (step) => step.approve("ask", { question: "Go?", details: { big: 1n } }),
  ],
  [
    "details with NaN",
    "invalid_payload",
    'has NaN at "average"',
    (step) => step.approve("ask", { question: "Go?", details: { average: 0 / 0 } }),
  ],
  ["an approval without a question", "invalid_payload", "use 1 to 500", (step) => step.approve("ask", { question: undefined as never })],
  [
    "an undo handler for an effect with a custom key",
    "config_invalid",
    "Leave out `key` or `undo`",
    (step) => step.effect("pay", defineStep({ effect: "keyed", key: () => "mine", run: async () => 1 }), {}, { undo: () => ({}) }),
  ],
  [
    "an undo handler in a step definition with a custom key",
    "config_invalid",
    "Leave out `key` or `undo`",
    (step) =>
      step.effect("pay", defineStep({ effect: "keyed", key: () => "mine", run: async () => 1, undo: back(async () => 1) as never }), {}),
  ],
  [
    "half of a surrogate pair in a statement",
    "config_invalid",
    "A text was to be written (INSERT INTO probe_rows (name, value) VALUES (?1, ?2)…) with half of a surrogate pair: send well-formed",
    (step) => step.commit("write", () => ({ statements: [sql`INSERT INTO probe_rows (name, value) VALUES (${"a"}, ${"\ud83d"})`] })),
  ],
  [
    "half of a surrogate pair in a row of an effect",
    "config_invalid",
    "half of a surrogate pair: send well-formed Unicode",
    (step) =>
      step.effect(
        "send",
        effect("natural", async () => 1),
        {},
        { record: () => ({ statements: [sql`DELETE FROM probe_rows WHERE name = ${"\udfff"}`] }) },
      ),
  ],
  ["a result of 20 MB", "output_too_large", "1 MiB", async () => "[".repeat(20_000_000)],
] as [string, string, string, (step: Steps) => Promise<unknown>][])(
  "a run with %s fails at its first attempt, and the error names a remedy",
  async (_, code, says, ask) => {
    const { instanceId } = await runLab(({ step }) => ask(step));
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ code, attempts: 1, message: expect.stringContaining(says) });
  },
);

it("W17 an unknown outcome can be confirmed with an output that is larger than a database row", async () => {
  const large = "x".repeat(2_100_000);
  const mail = effect("once", async () => Promise.reject(new Error("Lost.")));
  const { instanceId } = await runLab(async ({ step }) => ((await step.effect("mail", mail, {})) as string).length);
  expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
  await resolve(instanceId, "mail", { verb: "confirm", output: large });
  expect(await outputOf(instanceId)).toBe(large.length);
});

it("a dry run of a retry or an undo returns the reason for which the action would be refused, or null", async () => {
  const state = { broken: true, held: true };
  const { instanceId } = await runLab(async ({ step }) => {
    await step.read("at work", () => held(() => !state.held));
    const fallBack = () => step.commit("fall back", () => ({}), { undo: () => ({}) });
    await step
      .commit("try", () => (state.broken ? Promise.reject(new Error("No.")) : {}), { retries: { limit: 0, delay: 10 } })
      .catch(fallBack);
    if (state.broken) throw new Error("Broken.");
  });
  await platformReaches(instanceId, "running");
  const plans = async (from?: string) => [
    (await instances.plan(probeEnv, operator, "retry", instanceId, { from })).refused,
    (await instances.plan(probeEnv, operator, "undo", instanceId, {})).refused,
  ];
  await expect
    .poll(() => plans(), { timeout: 20_000 })
    .toEqual([expect.stringMatching(/^The instance is/), expect.stringMatching(/^The instance is/)]);
  state.held = false;
  expect(await ended(instanceId)).toBe("errored");
  expect(await plans()).toEqual([null, null]);
  expect((await instances.plan(probeEnv, operator, "retry", instanceId, { from: "try" })).refused).toContain('continued with "fall back"');
  expect((await instances.plan(probeEnv, operator, "retry", instanceId, { from: "try", force: true })).refused).toBeNull();
  await expect(retry(instanceId, { from: "try" })).rejects.toMatchObject({
    message: expect.stringContaining('continued with "fall back"'),
  });
});

it("the list of steps is empty for a run of a workflow that is no longer bound", async () => {
  expect(await instances.history(probeEnv, { id: "0".repeat(32), workflow: "gone" })).toEqual({ steps: [], truncated: false, own: 0 });
});
