import { type Statement, sql } from "millrace";
import { ownFact, type Told } from "./own.ts";

/**
 * Returns the row of a fact. A ledger's fact never changes, so an existing row is kept, and late, repeated or reordered messages give the
 * same rows.
 */
export function factRow(told: Told) {
  const { entity, sequence, fact_id, recorded_at, type, subtype, occurred_at, trace_id, correlation_id, causation_id, payload } =
    ownFact(told);
  const { tenant_id } = told.envelope;
  // Times are converted here, because SQLite would use a floating point number and could lose a millisecond.
  const body = { type, subtype, occurred_at: Date.parse(occurred_at), trace_id, correlation_id, causation_id, payload };
  return { text: INSERT_FACTS, row: { tenant_id, entity, sequence, fact_id, recorded_at: Date.parse(recorded_at), body } };
}

/** A ledger is registered with its first fact, and again with every hundredth fact, in case the message of the first fact was lost. */
const REGISTERED_EVERY = 100;

/**
 * Returns the row of a fact's ledger if the fact registers the ledger; otherwise undefined. A batch contains the row once, and an existing
 * row is not written again.
 */
export function ledgerRow(told: Told) {
  const { entity, sequence } = ownFact(told);
  const { tenant_id } = told.envelope;
  return sequence % REGISTERED_EVERY === 1 ? { text: REGISTER_LEDGERS, row: { tenant_id, entity } } : undefined;
}

const INSERT_FACTS = `
  WITH given AS MATERIALIZED (SELECT value FROM json_each(?1))
  INSERT INTO facts (tenant_id, entity, sequence, fact_id, recorded_at, body, projected_at)
  SELECT value->>'tenant_id', value->>'entity', value->>'sequence', value->>'fact_id', value->>'recorded_at', value->'body', ${sql.now.fragment}
  FROM given WHERE true
  ON CONFLICT DO NOTHING`;

/**
 * Writes missing rows of facts into the projection, and overwrites wrong rows. Correct rows are not written. Returns one row for each row
 * that was written.
 */
export function restoreFacts(rows: string): Statement {
  return sql`
    INSERT INTO facts (tenant_id, entity, sequence, fact_id, recorded_at, body, projected_at)
    SELECT value->>'tenant_id', value->>'entity', value->>'sequence', value->>'fact_id', value->>'recorded_at', value->'body', ${sql.now}
    FROM json_each(${rows}) WHERE true
    ON CONFLICT DO UPDATE SET body = excluded.body, recorded_at = excluded.recorded_at
      WHERE body <> excluded.body OR recorded_at <> excluded.recorded_at
    RETURNING 1 AS written`;
}

const REGISTER_LEDGERS = `
  INSERT INTO ledgers (tenant_id, entity, registered_at)
  SELECT value->>'tenant_id', value->>'entity', ${sql.now.fragment}
  FROM json_each(?1) WHERE true
  ON CONFLICT DO NOTHING`;
