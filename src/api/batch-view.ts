import type { Context } from "hono";
import { beginning } from "millrace";
import { HttpRefusal, iso, isoOrNull, timestamp } from "millrace/http";
import * as z from "zod";
import { type Batch, findBatch, OPERATIONS, STATES } from "../systems/batches/batch.ts";
import { asOf } from "../systems/batches/export.ts";
import { FORMATS } from "../systems/batches/layout.ts";
import type { ApiEnv } from "./env.ts";

export const BatchSchema = z
  .object({
    batch_id: z.string(),
    operation: z.enum(OPERATIONS),
    dataset: z.string(),
    format: z.enum(FORMATS),
    state: z
      .enum(STATES)
      .meta({ description: "`errored` while its instance has failed: fix the cause in `error`, then retry the instance." }),
    total_bytes: z.int().nullable().meta({ description: "Size of the file. Its number of rows is known when it is read." }),
    read_bytes: z.int(),
    rows: z.object({
      done: z.int(),
      failed: z.int().meta({ description: "Refused rows, listed one by one under `/errors`." }),
      skipped: z.int().meta({ description: "Rows that already existed with the same content." }),
      per_second: z.number(),
    }),
    findings: z.object({ same: z.int(), different: z.int(), only_there: z.int(), only_here: z.int() }).nullable(),
    as_of: timestamp.nullable().meta({
      description: "The time of an export of facts: it contains all facts that their ledgers had recorded by then. Null for other batches.",
    }),
    instance_id: z.string(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    cancel_reason: z.string().nullable(),
    parent_batch_id: z.string().nullable().meta({ description: "The earlier batch, if this batch imports its failed rows again." }),
    created_at: timestamp,
    started_at: timestamp.nullable(),
    updated_at: timestamp,
    ended_at: timestamp.nullable(),
  })
  .meta({ id: "Batch" });

export const batchParams = z.object({ id: z.string() });

/** The caller's batch. Errors: `batch_not_found`, also for another tenant's. */
export async function batchOf(context: Context<ApiEnv>, id: string): Promise<Batch> {
  const batch = await findBatch(context.env.DB, context.var.caller.tenantId, id);
  if (!batch) throw noSuchBatch(id);
  return batch;
}

export function noSuchBatch(id: string): HttpRefusal {
  return new HttpRefusal("batch_not_found", `There is no batch ${beginning(id, 64)}. List them with GET /v1/batches.`);
}

export function batchView(batch: Batch): z.infer<typeof BatchSchema> {
  const { same, different, onlyThere, onlyHere, startedAt } = batch;
  const rows = { done: batch.rowsDone, failed: batch.rowsFailed, skipped: batch.rowsSkipped };
  const seconds = startedAt === null ? 0 : (batch.updatedAt - startedAt) / 1000;
  const rate = seconds > 0 ? (rows.done + rows.failed + rows.skipped) / seconds : 0;
  return {
    batch_id: batch.batchId,
    operation: batch.operation,
    dataset: batch.dataset,
    format: batch.format,
    state: batch.state,
    total_bytes: batch.totalBytes,
    read_bytes: batch.readBytes,
    rows: { ...rows, per_second: Math.round(rate * 10) / 10 },
    findings: batch.operation === "reconcile" ? { same, different, only_there: onlyThere, only_here: onlyHere } : null,
    as_of: isoOrNull(asOf(batch)),
    instance_id: batch.instanceId,
    error: batch.error && { code: batch.error.code, message: batch.error.message },
    cancel_reason: batch.cancelReason,
    parent_batch_id: batch.parentId,
    created_at: iso(batch.createdAt),
    started_at: isoOrNull(startedAt),
    updated_at: iso(batch.updatedAt),
    ended_at: isoOrNull(batch.endedAt),
  };
}
