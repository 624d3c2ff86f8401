import { defineStep, type EffectCall } from "../engine/index.ts";
import { dropRows, ledgersAfter, type Span } from "../facts/rebuild.ts";
import { ledgerOf } from "../objects/ledgers.ts";

/** Ledgers of one step: few enough to be done in seconds, many enough to need few steps. */
export const SLICE_LEDGERS = 100;

/**
 * Drops the rows of the tenant's next ledgers behind a name and has each of them send its facts again. Answers which places the
 * rows have to fill. Done twice, it drops what has arrived since and sends it once more.
 */
export const dropAndReplay = defineStep({
  effect: "natural",
  timeout: "5 minutes",
  async run({ input: { tenantId, after }, env }: EffectCall<{ tenantId: string; after: string }>): Promise<Span[]> {
    const entities = await ledgersAfter(env.DB, tenantId, after, SLICE_LEDGERS);
    const spans = await Promise.all(
      entities.map(async (entity) => {
        const { first, last } = await ledgerOf(env, tenantId, entity).state();
        return { entity, first, last };
      }),
    );
    await dropRows(env.DB, tenantId, spans);
    await replay(env, tenantId, entities);
    return spans;
  },
});

/**
 * Has ledgers send their facts again whose rows are missing though nothing is on its way. That can be: a confirmation of rows
 * that were dropped a moment later may reach its ledger after the replay began, which then takes them for arrived.
 */
export const replayAgain = defineStep({
  effect: "natural",
  timeout: "5 minutes",
  run: ({ input: { tenantId, entities }, env }: EffectCall<{ tenantId: string; entities: string[] }>) => replay(env, tenantId, entities),
});

async function replay(env: Env, tenantId: string, entities: readonly string[]): Promise<number> {
  await Promise.all(entities.map((entity) => ledgerOf(env, tenantId, entity).replay()));
  return entities.length;
}
