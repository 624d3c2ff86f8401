import { defineStep, type EffectCall } from "millrace";
import { type RecordedFact, recordedFactSchema } from "../messages/fact.ts";
import { ledgerOf } from "../systems/facts/ledger/ledgers.ts";
import { type LedgerPlace, readLedgers } from "../systems/facts/ledger/read-ledgers.ts";
import { deleteRows, type Restored, type RowName, restoreRows, straysBehind } from "../systems/facts/rebuild.ts";

/** Limits of one step. The limits are chosen so that each step takes only seconds and a run has few steps. */
const STEP = { ledgers: 100, facts: 5000 };
/** Maximum number of facts that are read and written at once, and the maximum size of these facts in memory. */
const PAGE = { rows: 500, bytes: 4 * 1024 ** 2 };

/** The findings of a step, and the ledger at which the next step continues. The ledger is null if no ledger remains. */
export interface Stretch {
  ledgers: number;
  facts: number;
  /** The number of rows that were missing or wrong before the step. */
  restored: number;
  /** The number of rows whose fact is in no ledger. */
  removed: number;
  /** The number of facts that do not match the present schema of their type. Such facts have no row. */
  unfit: number;
  firstUnfit: string | null;
  next: LedgerPlace | null;
}

/**
 * Writes the stored facts of the tenant's next ledgers into the existing projection, and deletes rows whose fact is in no ledger. The step
 * is repeatable.
 */
export const restoreLedgers = defineStep({
  effect: "natural",
  timeout: "5 minutes",
  async run({ input: { tenantId, from }, env }: EffectCall<{ tenantId: string; from: LedgerPlace | null }>): Promise<Stretch> {
    const done: Stretch = { ledgers: 0, facts: 0, restored: 0, removed: 0, unfit: 0, firstUnfit: null, next: from };
    do {
      const { parts, next } = await readLedgers(env, tenantId, done.next, { ...PAGE, ledgers: STEP.ledgers - done.ledgers });
      const fitting = parts.map((part) => {
        const facts = part.facts.flatMap((fact) => {
          const read = fits(fact);
          if (!read) {
            done.unfit++;
            done.firstUnfit ??= `number ${fact.sequence} of ${part.entity}`;
          }
          return read ?? [];
        });
        return { entity: part.entity, facts, first: part.first, last: part.ended ? null : (part.facts.at(-1)?.sequence ?? part.first) };
      });
      const { written, removed } = await restore(env, tenantId, fitting);
      done.restored += written;
      done.removed += removed;
      done.facts += parts.reduce((sum, { facts }) => sum + facts.length, 0);
      done.ledgers += parts.filter(({ ended }) => ended).length;
      done.next = next;
    } while (done.next !== null && done.ledgers < STEP.ledgers && done.facts < STEP.facts);
    return done;
  },
});

function fits(fact: RecordedFact): RecordedFact | undefined {
  return recordedFactSchema.safeParse(fact).data;
}

async function restore(env: Env, tenantId: string, ledgers: readonly Restored[]): Promise<{ written: number; removed: number }> {
  const { written, strays } = await restoreRows(env.DB, tenantId, ledgers);
  let removed = 0;
  for (let found = strays; found.length > 0; found = await straysBehind(env.DB, tenantId, ledgers, found)) {
    const nobodys = await ofNoLedger(env, tenantId, found);
    await deleteRows(env.DB, tenantId, nobodys);
    removed += nobodys.length;
  }
  return { written, removed };
}

/**
 * Returns the rows of the projection whose fact is in no ledger. The rows are read before the ledger, so that a fact that is recorded in
 * between does not count as missing.
 */
async function ofNoLedger(env: Env, tenantId: string, rows: readonly RowName[]): Promise<RowName[]> {
  const asked = await Promise.all(
    [...Map.groupBy(rows, ({ entity }) => entity)].map(async ([entity, group]) => {
      const names = await ledgerOf(env, tenantId, entity).namesAt(group.map(({ sequence }) => sequence));
      const own = new Map(names.map(({ sequence, fact_id }) => [sequence, fact_id]));
      return group.filter(({ sequence, fact_id }) => own.get(sequence) !== fact_id);
    }),
  );
  return asked.flat();
}
