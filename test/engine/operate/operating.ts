import { defineStep, type EffectCall } from "millrace";
import { effects, instances } from "millrace/operate";
import { expect } from "vitest";
import type { Done, StepDefinition } from "../../../packages/millrace/src/guard/step.ts";
import type { Resolution } from "../../../packages/millrace/src/operate/instances/resolve.ts";
import { operator, probeEnv, reaches, rows } from "../harness.ts";
import { platformReaches } from "../lab.ts";

/** A retry policy of one attempt. */
export const ONCE = { retries: { limit: 0, delay: 10 } } as const;

type Back = StepDefinition<Done<unknown, unknown>, unknown>;

/** A step definition for an effect of a test: one attempt, a timeout of five seconds. */
export function effect(
  of: "keyed" | "natural" | "once",
  run: (call: EffectCall<unknown>) => Promise<unknown>,
  more: { undo?: Back; timeout?: number } = {},
): StepDefinition<unknown, unknown> {
  return defineStep({ effect: of, ...ONCE, timeout: 5000, run, ...more });
}

/** An undo handler that may be repeated. */
export function back(run: (call: EffectCall<Done<unknown, unknown>>) => Promise<unknown>): Back {
  return defineStep({ effect: "natural", ...ONCE, run });
}

export const retry = (id: string, more: { from?: string; force?: boolean } = {}) =>
  instances.act(probeEnv, operator, "retry", id, { reason: "mended", ...more });

export const undo = (id: string) => instances.act(probeEnv, operator, "undo", id, { reason: "called off" });

export const resolve = (id: string, step: string, resolution: Resolution) =>
  effects.resolve(probeEnv, operator, effects.key({ instanceId: id, step, item: "", generation: 1 }), resolution, "I looked");

/** Waits until a run has ended, and returns its status. */
export const ended = (id: string) => reaches(id, "complete", "errored", "terminated");

/** The state of a step's newest inbox entry. */
export async function stateOf(id: string, step: string): Promise<string | undefined> {
  const found = await rows<{ state: string }>(
    "SELECT state FROM millrace_inbox WHERE instance_id = ?1 AND step = ?2 ORDER BY generation",
    id,
    step,
  );
  return found.at(-1)?.state;
}

/** Waits until a run has failed, on its row and on the platform. */
export async function failed(id: string): Promise<void> {
  expect(await ended(id)).toBe("errored");
  await platformReaches(id, "errored");
}

export async function saysErrored(instanceId: string): Promise<void> {
  const failure = JSON.stringify({ step: "", code: "step_failed", message: "an earlier replay failed", attempts: 1 });
  await probeEnv.DB.prepare("UPDATE millrace_instances SET status = 'errored', error = ?2 WHERE id = ?1").bind(instanceId, failure).run();
}
