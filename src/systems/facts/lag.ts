import { namedBatch, sql } from "millrace";

/**
 * The delay of a projection behind its ledgers in milliseconds. A lag is the time from the recording (by the ledger's clock) to the writing
 * of the row (by the database's clock).
 */
export interface Lag {
  /** Number of rows that were measured. */
  rows: number;
  p50: number;
  p95: number;
  max: number;
}

/** The state of a tenant's projection of facts. */
export interface ProjectionState {
  rows: number;
  ledgers: number;
  /** True if the projection has more rows or ledgers than were counted. */
  more: boolean;
  lag: Lag | null;
  newestProjectedAt: number | null;
}

/** The lag is measured on at most `MEASURED_ROWS` of the newest rows, which were recorded within the last `MEASURED_MS` milliseconds. */
const MEASURED_ROWS = 1000;
const MEASURED_MS = 3_600_000;
/** Maximum number of counted rows. The limit exists because counting reads each row. */
const COUNTED_ROWS = 100_000;

/**
 * Reads the number of rows and the lag of a tenant's projection of facts. Rows that were recorded before `since` are not measured, because
 * a rebuild has written these rows again.
 */
export async function projectionState(db: D1Database, tenantId: string, since = 0): Promise<ProjectionState> {
  const { newest, rows, ledgers } = await namedBatch(db, {
    newest: sql`SELECT recorded_at, projected_at FROM facts WHERE tenant_id = ${tenantId} ORDER BY recorded_at DESC LIMIT ${MEASURED_ROWS}`,
    rows: sql`SELECT count(*) AS count FROM (SELECT 1 FROM facts WHERE tenant_id = ${tenantId} LIMIT ${COUNTED_ROWS + 1})`,
    ledgers: sql`SELECT count(*) AS count FROM (SELECT 1 FROM ledgers WHERE tenant_id = ${tenantId} LIMIT ${COUNTED_ROWS + 1})`,
  });
  const known = newest as unknown as { recorded_at: number; projected_at: number }[];
  const from = Math.max(since, Date.now() - MEASURED_MS);
  const counted = [rows, ledgers].map(([row]) => Number(row?.count ?? 0));
  const [factCount = 0, ledgerCount = 0] = counted;
  return {
    rows: Math.min(factCount, COUNTED_ROWS),
    ledgers: Math.min(ledgerCount, COUNTED_ROWS),
    more: counted.some((count) => count > COUNTED_ROWS),
    lag: lagOf(known.filter(({ recorded_at }) => recorded_at >= from).map((row) => row.projected_at - row.recorded_at)),
    newestProjectedAt: known.length > 0 ? Math.max(...known.map(({ projected_at }) => projected_at)) : null,
  };
}

function lagOf(lags: readonly number[]): Lag | null {
  // The recording time and the writing time are from different clocks. A lag may be negative, because the database's clock may be a little
  // behind the ledger's clock.
  const sorted = lags.map((lag) => Math.max(0, lag)).sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
  return sorted.length === 0 ? null : { rows: sorted.length, p50: at(0.5), p95: at(0.95), max: at(1) };
}
