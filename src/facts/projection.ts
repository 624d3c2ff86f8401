import { now, type RowStatement } from "../engine/index.ts";
import type { RecordedFact } from "./fact.ts";

/** The row of a fact. A ledger's fact never changes, so a row that is there stays as it is: late, repeated and shuffled facts change nothing. */
export function factRow({ payload: fact }: { payload: RecordedFact }): RowStatement {
  return { text: UPSERT, row: { ...fact, subtype: fact.subtype ?? null, payload: JSON.stringify(fact.payload) } };
}

const UPSERT = `
  INSERT INTO facts (tenant_id, entity, fact_id, sequence, type, subtype, occurred_at, recorded_at, trace_id, correlation_id, causation_id, payload, projected_at)
  SELECT value->>'tenant_id', value->>'entity', value->>'fact_id', value->>'sequence', value->>'type', value->>'subtype',
    CAST(unixepoch(value->>'occurred_at', 'subsec') * 1000 AS INTEGER), CAST(unixepoch(value->>'recorded_at', 'subsec') * 1000 AS INTEGER),
    value->>'trace_id', value->>'correlation_id', value->>'causation_id', value->>'payload', ${now.fragment}
  FROM json_each(?1) WHERE true
  ON CONFLICT DO NOTHING`;
