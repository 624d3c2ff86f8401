import { defineStep, type EffectCall } from "millrace";
import { ledgerOf } from "../systems/facts/ledger/ledgers.ts";
import { ledgersFrom } from "../systems/facts/rebuild.ts";

/** Maximum number of ledgers that one step calls. The number is chosen so that each step takes only seconds and a run has few steps. */
const SLICE_LEDGERS = 100;

/**
 * The number of ledgers that the step called, and the name of the last ledger, after which the next step continues. The name is null if no
 * ledger remains.
 */
export interface Asked {
  ledgers: number;
  after: string | null;
}

/**
 * Makes the tenant's next ledgers send all stored facts with consequences again. The consequences of a fact are applied once, so a
 * repetition only sends more messages.
 */
export const replayLedgers = defineStep({
  effect: "natural",
  timeout: "5 minutes",
  async run({ input: { tenantId, after }, env }: EffectCall<{ tenantId: string; after: string }>): Promise<Asked> {
    const entities = await ledgersFrom(env.DB, tenantId, { entity: after, sequence: null }, SLICE_LEDGERS);
    await Promise.all(entities.map((entity) => ledgerOf(env, tenantId, entity).replay("fact-processing")));
    return { ledgers: entities.length, after: entities.length === SLICE_LEDGERS ? (entities.at(-1) ?? null) : null };
  },
});
