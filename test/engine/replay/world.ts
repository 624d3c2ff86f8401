import { defineStep, type EffectCall, type Steps, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { platformReaches } from "../lab.ts";

/** A simulated upstream for one test: its effects and undos in order, and the condition that each effect waits for. */
export function world() {
  const done: string[] = [];
  const back: string[] = [];
  const waits: Record<string, () => boolean> = {};
  const refusing = new Set<string>();
  const definition = defineStep({
    effect: "natural",
    retries: { limit: 0, delay: 10 },
    async run({ input }: EffectCall<string>) {
      while (waits[input]?.() === false) await scheduler.wait(5);
      if (refusing.has(input)) throw upstreamRefused(`${input} is refused`);
      done.push(input);
      return input;
    },
    undo: defineStep<Done<string, string>, unknown>({
      effect: "natural",
      async run({ input }: EffectCall<Done<string, string>>) {
        back.push(input.input);
      },
    }),
  });
  const act = (step: Steps, name: string) => step.effect(name as never, definition, name);
  const chain = async (step: Steps, ...names: string[]) => {
    for (const name of names) await act(step, name);
    return names[0];
  };
  return { done, back, waits, refusing, act, chain };
}

export async function retried(instanceId: string): Promise<string | undefined> {
  await platformReaches(instanceId, "errored", "complete", "terminated");
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
  return reaches(instanceId, "complete", "errored");
}

export const recorded = (instanceId: string, step: string) =>
  until(
    () => rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND step = ?2 AND state = 'done'", instanceId, step),
    (found) => found.length === 1,
  );
