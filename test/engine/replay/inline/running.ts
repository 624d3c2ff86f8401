import { defineStep, type EffectCall, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { afterAll, beforeAll, expect } from "vitest";
import { recorderNames } from "../../../../packages/millrace/src/contract/recorder-name.ts";
import type { StepMode } from "../../../../packages/millrace/src/contract/step-names.ts";
import type { Recorder } from "../../../../packages/millrace/src/recorder/recorder.ts";
import { mode } from "../../../probe/mode.ts";
import { fresh, probeEnv, reaches, until } from "../../harness.ts";
import { platformReaches, runLab } from "../../lab.ts";

export type Code = Parameters<typeof runLab>[0];

/**
 * Waits before the tests of a file until the recorders are older than the maximum clock difference, and the isolate has replayed a run. From
 * then on the first replay of a run executes its steps inline. After the tests the step mode is `platform` again.
 */
export function withRecordersThatKnow(): void {
  beforeAll(async () => {
    const { RECORDER } = probeEnv;
    const known = recorderNames(probeEnv).map((name) => {
      const recorder = RECORDER.getByName(name) as unknown as Pick<Recorder, "begin">;
      return until(() => recorder.begin(fresh("first"), "pass", Date.now()), Boolean);
    });
    expect(await Promise.all(known), "each recorder treats a new run as new after a second").toEqual(known.map(() => true));
    // The first run of an isolate makes no inline step, because another isolate may have made its steps before.
    const { instanceId } = await runIn("platform", async () => undefined);
    await reaches(instanceId, "complete");
  });
  afterAll(() => {
    mode.steps = "platform";
  });
}

/** Starts a run in a step mode. */
export function runIn(steps: StepMode, code: Code, name = fresh("inline")) {
  mode.steps = steps;
  return runLab(code, { name });
}

/** Executes a run of inline steps to its end. */
export async function inline(code: Code): Promise<string> {
  const { instanceId } = await runIn("inline", code);
  await platformReaches(instanceId, "complete", "errored");
  await reaches(instanceId, "complete", "errored");
  return instanceId;
}

/** The names of the run's steps on the platform. */
export const onPlatform = async (id: string) => (await instances.history(probeEnv, { id, workflow: "lab" })).steps.map(({ name }) => name);

/** A simulated upstream in this process, with the requests in order. */
export function upstream(effect: "keyed" | "natural" | "lookup" = "natural") {
  const calls: string[] = [];
  const state = { fails: 0, takesMs: 0 };
  const own = effect === "lookup" ? { effect, lookup: async () => undefined } : { effect };
  const definition = defineStep({
    ...own,
    retries: { limit: 2, delay: 10, backoff: "constant" },
    async run({ input, key }: EffectCall<string>) {
      if (key === "") throw new Error("There is no key.");
      calls.push(input);
      if (state.takesMs > 0) await scheduler.wait(state.takesMs);
      if (state.fails-- > 0) throw upstreamRefused("not yet");
      return input;
    },
  });
  return { calls, state, definition };
}
