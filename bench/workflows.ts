import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import { defineCommand, defineConsumer, defineQueue, defineStep, defineWorkflow, type EffectCall, sql } from "millrace";
import * as z from "zod";
import type { WorkflowCall } from "../packages/millrace/src/workflow/workflow.ts";

const benchCommands = defineQueue({ name: "bench-commands" });
/** A queue without a consumer in `wrangler.jsonc`. */
const benchUnread = defineQueue({ name: "bench-unread" });

const payload = z.object({ id: z.string() });
const message = (type: string, queue = benchCommands) =>
  defineCommand({ type, payload, key: ({ id }) => id, subject: ({ id }) => id, queue });
export const RunGuarded = message("bench.guarded");
export const RunInline = message("bench.inline");
const RunEmpty = message("bench.empty");
const RunUnread = message("bench.unread", benchUnread);

/** The end time of each instance, by instance id. The times are comparable, because the engine and the raw workflows run in one process. */
export const ended = new Map<string, number>();

/** An effect that does no work, so that only the cost of the guard is measured. */
const effect = async ({ id }: { id: string }) => ({ id, at: "upstream", ok: true });

/** Three steps on raw Workflows, without any guard. */
export class Raw extends WorkflowEntrypoint<Cloudflare.Env, { id: string }> {
  override async run(event: WorkflowEvent<{ id: string }>, step: WorkflowStep): Promise<void> {
    const { id } = event.payload;
    for (const name of ["first", "second", "third"]) {
      await step.do(name, { retries: { limit: 5, delay: "10 seconds", backoff: "exponential" }, timeout: "30 seconds" }, () =>
        effect({ id }),
      );
    }
    ended.set(id, Date.now());
  }
}

const guardedEffect = defineStep({ effect: "keyed", run: ({ input }: EffectCall<{ id: string }>) => effect(input) });

async function threeSteps({ payload: { id }, step }: WorkflowCall<{ id: string }>): Promise<void> {
  await step.effect("first", guardedEffect, { id });
  await step.effect("second", guardedEffect, { id });
  await step.commit("third", () => ({
    statements: [sql`UPDATE bench_rows SET done = 1 WHERE id = ${id}`],
    output: { id, at: "here", ok: true },
  }));
  ended.set(id, Date.now());
}

/** Three guarded steps: two keyed effects and a commit. */
export const guarded = defineWorkflow({ name: "guarded", on: RunGuarded, run: threeSteps });

/** Three guarded inline steps: two keyed effects and a commit. */
export const inline = defineWorkflow({ name: "inline", on: RunInline, steps: "inline", run: threeSteps });

/** A workflow without steps, to measure ingestion. */
export const empty = defineWorkflow({ name: "empty", on: RunEmpty, run: async () => undefined });

export const benching = defineConsumer({ queue: benchCommands, batch: { size: 100, waitSeconds: 0 }, starts: [guarded, inline, empty] });

export const unread = defineWorkflow({ name: "unread", on: RunUnread, run: async () => undefined });
export const unreading = defineConsumer({ queue: benchUnread, starts: [unread] });
