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
    await Promise.all(entities.map((entity) => ledgerOf(env, tenantId, entity).replay()));
    return spans;
  },
});
