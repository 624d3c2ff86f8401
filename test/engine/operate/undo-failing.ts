import { defineStep, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { expect } from "vitest";
import * as z from "zod";
import { platformId } from "../../../packages/millrace/src/contract/ids.ts";
import { operator, probeEnv, rows } from "../harness.ts";
import { platformReaches } from "../lab.ts";
import { back, effect, undo } from "./operating.ts";
import { kept } from "./scene.ts";

/** Skips the step at which an undo failed. */
export const skip = (id: string, step: string, more: { item?: string; output?: unknown } = {}) =>
  instances.act(probeEnv, operator, "skip", id, { step, ...more, reason: "an operator has undone the effect" });

/** Undoes a run until the undo fails. */
export async function undoneInPart(id: string): Promise<void> {
  const { action_id: actionId } = await undo(id);
  await undoFailed(id, actionId);
}

/** Waits until an undo has failed, on its instance's row and on the platform. */
export async function undoFailed(id: string, actionId: string): Promise<void> {
  expect(await kept(id, "terminated", "errored")).toBe("errored");
  await platformReaches(platformId(id, actionId), "errored");
}

/** An effect with an undo handler that its upstream refuses because it no longer has the item. */
export function goneBack(of: "keyed" | "natural" | "lookup" | "once") {
  const more = {
    retries: { limit: 2, delay: 10 },
    output: z.object({ id: z.string() }),
    run: () => Promise.reject(upstreamRefused("No such booking.", 404)),
  };
  return (
    of === "lookup" ? defineStep({ effect: of, lookup: async () => undefined, ...more }) : defineStep({ effect: of, ...more })
  ) as never;
}

export const van = (world: string[], name = "van") =>
  effect("keyed", async () => world.push(name), { undo: back(async () => world.push(`${name} back`)) });

/** The inbox entries with step, generation and state. */
export const statesOf = (id: string) =>
  rows<{ entry: string }>(
    "SELECT step || ' ' || generation || ': ' || state AS entry FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position < 0, position, item, generation",
    id,
  ).then((found) => found.map(({ entry }) => entry));
