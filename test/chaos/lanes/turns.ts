import { defineCommand, defineConsumer, defineStep, defineWorkflow, type EngineEnv } from "millrace";
import { defineLaneQueue } from "millrace/lanes";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import type { Turn } from "./entries.ts";
import { type LedgerEnv, life } from "./lanes.ts";

// A lane in front of a workflow, whose instances report their start and end to the ledger.

const queue = defineLaneQueue({ name: "turning" });

const TurnRequested = defineCommand({
  type: "turn.requested",
  payload: z.object({ key: z.string(), n: z.int() }),
  key: ({ key, n }) => `${key}/${n}`,
  subject: ({ key }) => key,
  queue,
});

const told = defineStep<Omit<Turn, "is">, null>({
  effect: "natural",
  retries: { limit: 20, delay: 100, backoff: "constant" },
  async run({ input, env }) {
    const { LEDGER_URL } = env as unknown as LedgerEnv;
    const entry: Turn & { life: string } = { is: "turn", ...input, life: life() };
    const answer = await fetch(LEDGER_URL, { method: "POST", body: JSON.stringify([entry]), signal: AbortSignal.timeout(3000) });
    await answer.text();
    if (!answer.ok) throw new Error(`The ledger answered ${answer.status}.`);
    return null;
  },
});

export const takeTurn = defineWorkflow({
  name: "take-turn",
  on: TurnRequested,
  async run({ payload: { key, n }, step }) {
    await step.effect("begins", told, { key, n, at: "begins" });
    await step.effect("ends", told, { key, n, at: "ends" });
    return null;
  },
});

export const turnConsumer = defineConsumer({ queue, starts: [takeTurn], onFailure: "block", retries: { limit: 2, initial: 20, max: 100 } });

/** The ledger's HTTP interface. */
export function turnDoors(env: EngineEnv, app: Catalog) {
  return {
    askForTurns: (turns: readonly { key: string; n: number }[]) =>
      acceptCommands(
        env,
        app,
        { tenantId: "acme", source: "test" },
        turns.map((payload) => ({ type: TurnRequested.type, payload })),
      ),
  };
}
