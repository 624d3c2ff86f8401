import { NonRetryableError } from "cloudflare:workflows";
import { MillraceError, type StepMode } from "millrace";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Listener } from "../../probe/listener.ts";
import { fresh, probeEnv, reaches, until } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { back, effect, ended, failed, undo } from "../operate/operating.ts";

const SAID = "The card is declined.";
const RETRIED = { retries: { limit: 2, delay: 10, backoff: "constant" } } as const;
const MODES = ["lean", "platform"] as const;

/** An object in another Worker's place: its errors cross RPC. */
const elsewhere = () => probeEnv.LISTENER.getByName(fresh("bank")) as DurableObjectStub<Listener>;
const throwing = (error: unknown) => () => Promise.reject(error);

/** Errors that end a step at once, as they reach it. */
const FINAL: Record<string, () => Promise<never>> = {
  "of the platform's class": throwing(new NonRetryableError(SAID)),
  "of that class by another name": throwing(new NonRetryableError(SAID, "CardDeclined")),
  "of another bundle's class of that name": throwing(Object.assign(new Error(SAID), { name: "NonRetryableError" })),
  "of a bare text that begins with that name": throwing(`NonRetryableError: ${SAID}`),
  "that begins with that name": throwing(new Error(`NonRetryableError: ${SAID}`)),
  "that an object elsewhere threw": () => elsewhere().refuse(SAID),
};
const CASES = MODES.flatMap((steps) => Object.entries(FINAL).map(([what, run]) => ({ what, run, steps })));

/** The outcomes of the failed attempts of a run's steps, from the log from here on. */
function failedAttempts(): (id: string) => string[] {
  const spy = vi.spyOn(console, "warn");
  onTestFinished(() => spy.mockRestore());
  return (id) =>
    spy.mock.calls
      .map(([line]) => String(line))
      .filter((line) => line.startsWith('{"log":"attempt"') && line.includes(id))
      .map((line) => JSON.parse(line).outcome);
}

/** A payment, and how often it was tried. */
function payment(run: () => Promise<unknown>, steps: StepMode) {
  const world = { tried: 0 };
  const definition = {
    ...effect("natural", () => {
      world.tried++;
      return run();
    }),
    ...RETRIED,
  };
  return { world, pay: { definition, steps } };
}

describe("A step's error that ends it at once", () => {
  it.each(CASES)("$what becomes its run's failure, with its own message and after one attempt ($steps)", async ({ run, steps }) => {
    const attempts = failedAttempts();
    const { world, pay } = payment(run, steps);
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
    await failed(instanceId);
    expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "step_failed", message: SAID, attempts: 1, effect: "unknown" });
    expect([world.tried, attempts(instanceId)]).toEqual([1, ["failed"]]);
  });

  it.each(CASES)("$what has the same name and message in the code as the platform's own class ($steps)", async ({ run, steps }) => {
    const { world, pay } = payment(run, steps);
    const heard: unknown[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("pay", pay.definition, {}, { steps }).catch((error) => heard.push([error.name, error.message]));
    });
    expect(await ended(instanceId)).toBe("complete");
    expect([world.tried, heard]).toEqual([1, [["Error", `NonRetryableError: ${SAID}`]]]);
  });

  it.each(CASES)("$what ends an undo, and the error names the undo step ($steps)", async ({ run, steps }) => {
    const world = { tried: 0 };
    const refused = back(async () => {
      world.tried++;
      return run();
    });
    const reserve = effect("keyed", async () => 1, { undo: { ...refused, ...RETRIED } });
    const { instanceId } = await runLab(({ step }) => step.effect("reserve", reserve, {}, { steps }));
    expect(await ended(instanceId)).toBe("complete");
    await undo(instanceId);
    await until(() => errorOf(instanceId), Boolean);
    expect(await errorOf(instanceId)).toEqual({ step: "undo reserve", code: "step_failed", message: SAID, attempts: 1 });
    expect(world.tried).toBe(1);
  });

  it.each(CASES)("$what puts a once effect in doubt, because its outcome is unknown ($steps)", async ({ run, steps }) => {
    const { instanceId } = await runLab(({ step }) => step.effect("pay", effect("once", run), {}, { steps }));
    expect(await reaches(instanceId, "in_doubt", "errored", "complete")).toBe("in_doubt");
  });

  it.each(MODES)("an upstream's error that repeats the name NonRetryableError is retried (%s)", async (steps) => {
    const said = `NonRetryableError: ${SAID}`;
    const { world, pay } = payment(throwing(new MillraceError("upstream_refused", said)), steps);
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
    await failed(instanceId);
    expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "upstream_refused", message: said, attempts: 3, effect: "refused" });
    expect(world.tried).toBe(3);
  });

  it.each(MODES)("an error with a text that only begins like NonRetryableError is retried, and shown unchanged (%s)", async (steps) => {
    const said = "NonRetryableErrors are funny";
    const { world, pay } = payment(throwing(new Error(said)), steps);
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
    await failed(instanceId);
    expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "step_failed", message: said, attempts: 3, effect: "unknown" });
    expect(world.tried).toBe(3);
  });

  it.each(MODES)("an error with a message of 200,000 characters ends the step as well (%s)", async (steps) => {
    const { world, pay } = payment(throwing(new NonRetryableError("x".repeat(200_000))), steps);
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
    await failed(instanceId);
    expect(await errorOf(instanceId)).toMatchObject({ step: "pay", attempts: 1 });
    expect(world.tried).toBe(1);
  });
});

describe("An undo that fails with a very long upstream message", () => {
  it.each(MODES)("names its step and quotes the first 1,000 characters (%s)", async (steps) => {
    const refused = back(throwing(new Error("x".repeat(1_000_000))));
    const reserve = effect("keyed", async () => 1, { undo: refused });
    const { instanceId } = await runLab(({ step }) => step.effect("reserve", reserve, {}, { steps }));
    expect(await ended(instanceId)).toBe("complete");
    await undo(instanceId);
    await until(() => errorOf(instanceId), Boolean);
    expect(await errorOf(instanceId)).toEqual({ step: "undo reserve", code: "step_failed", message: "x".repeat(1000), attempts: 1 });
  });
});

/** Invalid details of an error: another bundle's, or made by hand. */
const ODD_DETAILS: Record<string, () => object> = {
  "whose fields throw": () => Object.defineProperty({}, "upstreamStatus", { get: () => expect.fail("looked at"), enumerable: true }),
  "whose verdict throws": () => Object.defineProperty({}, "terminal", { get: () => expect.fail("looked at") }),
  "that is a revoked proxy": () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  },
  "with a status that is no number": () => ({ upstreamStatus: { a: 1n } }),
  "with a status that is no whole number": () => ({ upstreamStatus: 1e300 }),
  "with a status as text": () => ({ upstreamStatus: "404" }),
};
const ODD_CASES = MODES.flatMap((steps) => Object.entries(ODD_DETAILS).map(([what, detail]) => ({ what, detail, steps })));

describe("A step's error with a detail", () => {
  it.each(ODD_CASES)("$what becomes its run's failure, with its code and after all attempts ($steps)", async ({ detail, steps }) => {
    const refusal = () => Object.assign(new Error(SAID), { name: "MillraceError", code: "upstream_refused", detail: detail() });
    const { world, pay } = payment(() => Promise.reject(refusal()), steps);
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
    await failed(instanceId);
    expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "upstream_refused", message: SAID, attempts: 3, effect: "refused" });
    expect(world.tried).toBe(3);
  });
});
