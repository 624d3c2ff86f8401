import { now, type RowStatement } from "../engine/index.ts";
import type { RecordedFact } from "./fact.ts";

/** The row of a fact. A ledger's fact never changes, so a row that is there stays as it is: late, repeated and shuffled facts change nothing. */
export function factRow({ payload: fact }: { payload: RecordedFact }): RowStatement {
  return {
    text: INSERT_FACTS,
    row: {
      ...fact,
      subtype: fact.subtype ?? null,
      // Counted here, because SQLite would go through a floating point number and lose a millisecond now and then.
      occurred_at: Date.parse(fact.occurred_at),
      recorded_at: Date.parse(fact.recorded_at),
      payload: JSON.stringify(fact.payload),
    },
  };
}

/** The row of a fact's ledger: once for all facts of a batch. One that is known is not written again. */
export function ledgerRow({ payload: { tenant_id, entity } }: { payload: RecordedFact }): RowStatement {
  return { text: REGISTER_LEDGERS, row: { tenant_id, entity } };
}

const INSERT_FACTS = `
  INSERT INTO facts (tenant_id, entity, sequence, fact_id, type, subtype, occurred_at, recorded_at, trace_id, correlation_id, causation_id, payload, projected_at)
  SELECT value->>'tenant_id', value->>'entity', value->>'sequence', value->>'fact_id', value->>'type', value->>'subtype', value->>'occurred_at',
    value->>'recorded_at', value->>'trace_id', value->>'correlation_id', value->>'causation_id', value->>'payload', ${now.fragment}
  FROM json_each(?1) WHERE true
  ON CONFLICT DO NOTHING`;

const REGISTER_LEDGERS = `
  INSERT INTO ledgers (tenant_id, entity, registered_at)
  SELECT value->>'tenant_id', value->>'entity', ${now.fragment}
  FROM json_each(?1) WHERE true
  ON CONFLICT DO NOTHING`;
