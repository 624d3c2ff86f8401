import { NonRetryableError } from "cloudflare:workflows";
import { MillraceError } from "millrace";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { StepMode } from "../../../packages/millrace/src/contract/step-names.ts";
import type { Listener } from "../../probe/listener.ts";
import { fresh, probeEnv, reaches, until } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { back, effect, ended, failed, undo } from "../operate/operating.ts";

const SAID = "The card is declined.";
const RETRIED = { retries: { limit: 2, delay: 10, backoff: "constant" } } as const;
const MODES = ["inline", "platform"] as const;

/** An object in the role of another Worker's object: its errors cross RPC. */
const elsewhere = () => probeEnv.LISTENER.getByName(fresh("bank")) as DurableObjectStub<Listener>;
const throwing = (error: unknown) => () => Promise.reject(error);

/** Errors that end a step without a further attempt, as the engine receives them. */
const FINAL: Record<string, () => Promise<never>> = {
  "the platform's NonRetryableError": throwing(new NonRetryableError(SAID)),
  "the platform's NonRetryableError with another name": throwing(new NonRetryableError(SAID, "CardDeclined")),
  "an error named NonRetryableError from another bundle": throwing(Object.assign(new Error(SAID), { name: "NonRetryableError" })),
  "a thrown text that begins with NonRetryableError": throwing(`NonRetryableError: ${SAID}`),
  "an error message that begins with NonRetryableError": throwing(new Error(`NonRetryableError: ${SAID}`)),
  "a NonRetryableError from an object of another Worker": () => elsewhere().refuse(SAID),
};
const CASES = MODES.flatMap((steps) => Object.entries(FINAL).map(([what, run]) => ({ what, run, steps })));

/** Collects the outcomes of failed attempts from the log from now on. Returns those of a run. */
function failedAttempts(): (id: string) => string[] {
  const spy = vi.spyOn(console, "warn");
  onTestFinished(() => spy.mockRestore());
  return (id) =>
    spy.mock.calls
      .map(([line]) => String(line))
      .filter((line) => line.startsWith('{"log":"attempt"') && line.includes(id))
      .map((line) => JSON.parse(line).outcome);
}

/** A payment and the number of its attempts. */
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

describe("An error that ends a step without a further attempt", () => {
  it.each(CASES)("$what fails its run after one attempt, with its own message ($steps)", async ({ run, steps }) => {
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

  it.each(MODES)("an upstream's error with NonRetryableError in its message is retried (step mode %s)", async (steps) => {
    const said = `NonRetryableError: ${SAID}`;
    const { world, pay } = payment(throwing(new MillraceError("upstream_refused", said)), steps);
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
    await failed(instanceId);
    expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "upstream_refused", message: said, attempts: 3, effect: "refused" });
    expect(world.tried).toBe(3);
  });

  it.each(MODES)(
    "an error with a message that begins with NonRetryableErrors is retried, and its message is unchanged (step mode %s)",
    async (steps) => {
      const said = "NonRetryableErrors are funny";
      const { world, pay } = payment(throwing(new Error(said)), steps);
      const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
      await failed(instanceId);
      expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "step_failed", message: said, attempts: 3, effect: "unknown" });
      expect(world.tried).toBe(3);
    },
  );

  it.each(MODES)(
    "a NonRetryableError with a message of 200,000 characters ends its step after one attempt (step mode %s)",
    async (steps) => {
      const { world, pay } = payment(throwing(new NonRetryableError("x".repeat(200_000))), steps);
      const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
      await failed(instanceId);
      expect(await errorOf(instanceId)).toMatchObject({ step: "pay", attempts: 1 });
      expect(world.tried).toBe(1);
    },
  );
});

describe("An undo that fails with a very long upstream message", () => {
  it.each(MODES)(
    "the error of a failed undo names its step and contains the first 1,000 characters of a very long message (step mode %s)",
    async (steps) => {
      const refused = back(throwing(new Error("x".repeat(1_000_000))));
      const reserve = effect("keyed", async () => 1, { undo: refused });
      const { instanceId } = await runLab(({ step }) => step.effect("reserve", reserve, {}, { steps }));
      expect(await ended(instanceId)).toBe("complete");
      await undo(instanceId);
      await until(() => errorOf(instanceId), Boolean);
      expect(await errorOf(instanceId)).toEqual({ step: "undo reserve", code: "step_failed", message: "x".repeat(1000), attempts: 1 });
    },
  );
});

/** Invalid `detail` objects of an error, as another bundle or code by hand may create them. */
const ODD_DETAILS: Record<string, () => object> = {
  "a detail with fields that throw": () =>
    Object.defineProperty({}, "upstreamStatus", { get: () => expect.fail("looked at"), enumerable: true }),
  "a detail with a terminal field that throws": () => Object.defineProperty({}, "terminal", { get: () => expect.fail("looked at") }),
  "a detail that is a revoked proxy": () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  },
  "a detail with a status that is no number": () => ({ upstreamStatus: { a: 1n } }),
  "a detail with a status that is no whole number": () => ({ upstreamStatus: 1e300 }),
  "a detail with a status as text": () => ({ upstreamStatus: "404" }),
};
const ODD_CASES = MODES.flatMap((steps) => Object.entries(ODD_DETAILS).map(([what, detail]) => ({ what, detail, steps })));

describe("A step's error with an invalid detail", () => {
  it.each(ODD_CASES)("an error with $what fails its run after all attempts, with its own code ($steps)", async ({ detail, steps }) => {
    const refusal = () => Object.assign(new Error(SAID), { name: "MillraceError", code: "upstream_refused", detail: detail() });
    const { world, pay } = payment(() => Promise.reject(refusal()), steps);
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay.definition, {}, { steps }));
    await failed(instanceId);
    expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "upstream_refused", message: SAID, attempts: 3, effect: "refused" });
    expect(world.tried).toBe(3);
  });
});
