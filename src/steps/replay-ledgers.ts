import { defineStep, type EffectCall } from "millrace";
import { ledgerOf } from "../systems/facts/ledger/ledgers.ts";
import { ledgersFrom } from "../systems/facts/rebuild.ts";

/** Ledgers of one step: few enough to be done in seconds, many enough to need few steps. */
const SLICE_LEDGERS = 100;

/** How many ledgers were asked, and behind which name the next step goes on: null behind the last. */
export interface Asked {
  ledgers: number;
  after: string | null;
}

/**
 * Has the tenant's next ledgers send every fact again that they keep and that something follows from. What follows is done once, however
 * often it is said; done twice, this says it twice.
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
