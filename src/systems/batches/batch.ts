import { query, type Statement, sql } from "millrace";
import { instances, keysetPage, type Page, type PageRequest, statuses } from "millrace/operate";
import type { Formulas } from "./csv.ts";
import type { Format, Layout } from "./layout.ts";

export const OPERATIONS = ["import", "export", "reconcile"] as const;
export const STATES = ["accepted", "running", "cancelling", "cancelled", "complete", "errored"] as const;
export type Operation = (typeof OPERATIONS)[number];

/** A batch job, with the data of its row and the status of its instance. */
export interface Batch {
  tenantId: string;
  batchId: string;
  operation: Operation;
  dataset: string;
  format: Format;
  /** How cells that look like formulas are written in the batch's CSV file and CSV result. */
  formulas: Formulas;
  fingerprint: string;
  instanceId: string;
  fileKey: string | null;
  fileEtag: string | null;
  layout: Layout | null;
  totalBytes: number | null;
  /** The state is `errored` while the batch's instance has failed. An operator may retry the instance. */
  state: (typeof STATES)[number];
  readBytes: number;
  rowsDone: number;
  rowsFailed: number;
  rowsSkipped: number;
  same: number;
  different: number;
  onlyThere: number;
  onlyHere: number;
  progress: number;
  cancelReason: string | null;
  /** The id of the earlier batch whose failed rows this batch imports again, or null. */
  parentId: string | null;
  /** The error of the batch's instance. */
  error: { code: string; message: string } | null;
  createdAt: number;
  startedAt: number | null;
  updatedAt: number;
  endedAt: number | null;
}

const INSTANCE = instances.find("b");
const IS_STOPPED = `b.ended_at IS NULL AND ${INSTANCE.isStopped.fragment}`;

const COLUMNS = sql.fragment(`b.tenant_id AS tenantId, b.batch_id AS batchId, b.operation, b.dataset, b.format, b.formulas, b.fingerprint,
    b.instance_id AS instanceId,
    b.file_key AS fileKey, b.file_etag AS fileEtag, b.layout, b.total_bytes AS totalBytes,
    iif(${IS_STOPPED}, 'errored', b.state) AS state,
    b.read_bytes AS readBytes, b.rows_done AS rowsDone, b.rows_failed AS rowsFailed, b.rows_skipped AS rowsSkipped,
    b.same, b.different, b.only_there AS onlyThere, b.only_here AS onlyHere, b.progress, b.cancel_reason AS cancelReason,
    b.parent_id AS parentId,
    iif(${IS_STOPPED}, ${INSTANCE.error.fragment}, NULL) AS error,
    b.created_at AS createdAt, b.started_at AS startedAt, b.updated_at AS updatedAt, b.ended_at AS endedAt
    FROM batches b ${INSTANCE.join.fragment}`);

export async function findBatch(db: D1Database, tenantId: string, batchId: string): Promise<Batch | undefined> {
  const [row] = await query(db, sql`SELECT ${COLUMNS} WHERE b.tenant_id = ${tenantId} AND b.batch_id = ${batchId}`);
  return row && asBatch(row);
}

/** Lists the tenant's batches, newest first. */
export function listBatches(db: D1Database, tenantId: string, request: PageRequest): Promise<Page<Batch>> {
  return keysetPage(request, identity, async (before, limit) => {
    const rows = await query(
      db,
      sql`
        SELECT ${COLUMNS} WHERE b.tenant_id = ${tenantId} AND (b.created_at, b.batch_id) < (${before.at}, ${before.id})
        ORDER BY b.created_at DESC, b.batch_id DESC LIMIT ${limit}`,
    );
    return rows.map(asBatch);
  });
}

type NewBatch = Pick<
  Batch,
  | "tenantId"
  | "batchId"
  | "operation"
  | "dataset"
  | "format"
  | "formulas"
  | "fingerprint"
  | "instanceId"
  | "fileKey"
  | "fileEtag"
  | "layout"
  | "totalBytes"
  | "parentId"
>;

/** Inserts a batch, unless a batch with the same id exists. The statement returns a row if the batch is new. */
export function insertBatch(batch: NewBatch): Statement {
  return sql`
    INSERT INTO batches (tenant_id, batch_id, operation, dataset, format, formulas, fingerprint, instance_id, file_key, file_etag,
      layout, total_bytes, parent_id, created_at, updated_at)
    VALUES (${batch.tenantId}, ${batch.batchId}, ${batch.operation}, ${batch.dataset}, ${batch.format}, ${batch.formulas},
      ${batch.fingerprint}, ${batch.instanceId}, ${batch.fileKey}, ${batch.fileEtag}, ${batch.layout && JSON.stringify(batch.layout)},
      ${batch.totalBytes}, ${batch.parentId}, ${sql.now}, ${sql.now})
    ON CONFLICT (tenant_id, batch_id) DO NOTHING
    RETURNING 1`;
}

interface Advance {
  readBytes?: number;
  done?: number;
  failed?: number;
  skipped?: number;
  same?: number;
  different?: number;
  onlyThere?: number;
  onlyHere?: number;
  /**
   * The final state of the batch, if this write ends the batch. A batch that has processed all rows is complete, even if an operator
   * cancelled the batch meanwhile.
   */
  ends?: "complete" | "cancelled" | undefined;
}

/**
 * Adds the counts of a chunk to the batch's row. The statement must be committed exactly once, in the same database batch as the step's
 * outcome.
 */
export function advance({ tenantId, batchId }: Pick<Batch, "tenantId" | "batchId">, by: Advance): Statement {
  return sql`
    UPDATE batches SET
      state = coalesce(${by.ends ?? null}, iif(state = 'accepted', 'running', state)),
      read_bytes = coalesce(${by.readBytes ?? null}, read_bytes),
      rows_done = rows_done + ${by.done ?? 0}, rows_failed = rows_failed + ${by.failed ?? 0},
      rows_skipped = rows_skipped + ${by.skipped ?? 0},
      same = same + ${by.same ?? 0}, different = different + ${by.different ?? 0},
      only_there = only_there + ${by.onlyThere ?? 0}, only_here = only_here + ${by.onlyHere ?? 0},
      progress = progress + 1, started_at = coalesce(started_at, ${sql.now}), updated_at = ${sql.now},
      ended_at = iif(${by.ends ?? null} IS NULL, ended_at, coalesce(ended_at, ${sql.now}))
    WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}`;
}

/**
 * Requests the cancellation of a batch. The cancellation takes effect at the next chunk, or at once if the batch's command never started.
 */
export function markCancelled(tenantId: string, batchId: string, reason: string): Statement {
  const neverStarts = instances.exists("batches", { statuses: statuses.refused });
  return sql`
    UPDATE batches SET state = iif(${neverStarts}, 'cancelled', 'cancelling'), ended_at = iif(${neverStarts}, ${sql.now}, NULL),
      cancel_reason = ${reason}, progress = progress + 1, updated_at = ${sql.now}
    WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} AND state IN ('accepted', 'running')`;
}

const identity = ({ createdAt, batchId }: Batch) => ({ at: createdAt, id: batchId });

function asBatch(row: Record<string, unknown>): Batch {
  const { layout, error, ...rest } = row;
  return {
    ...rest,
    layout: typeof layout === "string" ? JSON.parse(layout) : null,
    error: typeof error === "string" ? JSON.parse(error) : null,
  } as Batch;
}
