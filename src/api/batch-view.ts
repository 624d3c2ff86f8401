import type { Context } from "hono";
import { texts } from "millrace";
import { HttpRefusal, times } from "millrace/http";
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
      .meta({ description: "`errored` while the instance of the batch has failed: fix the cause in `error`, then retry the instance." }),
    total_bytes: z
      .int()
      .nullable()
      .meta({ description: "Size of the batch's file. The number of its rows is known when the file is read." }),
    read_bytes: z.int(),
    rows: z.object({
      done: z.int(),
      failed: z.int().meta({ description: "The number of refused rows, which `/errors` lists one by one." }),
      skipped: z.int().meta({ description: "The number of rows that already existed with the same content." }),
      per_second: z.number(),
    }),
    findings: z.object({ same: z.int(), different: z.int(), only_there: z.int(), only_here: z.int() }).nullable(),
    as_of: times.timestamp.nullable().meta({
      description:
        "For an export of facts, its time: the export contains all facts that their ledgers had recorded by then. The time is null for other batches.",
    }),
    instance_id: z.string(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    cancel_reason: z.string().nullable(),
    parent_batch_id: z.string().nullable().meta({ description: "The earlier batch, if this batch imports its failed rows again." }),
    created_at: times.timestamp,
    started_at: times.timestamp.nullable(),
    updated_at: times.timestamp,
    ended_at: times.timestamp.nullable(),
  })
  .meta({ id: "Batch" });

/** Returns a batch of the caller's tenant. Errors: `batch_not_found`, also for a batch of another tenant. */
export async function batchOf(context: Context<ApiEnv>, id: string): Promise<Batch> {
  const batch = await findBatch(context.env.DB, context.var.caller.tenantId, id);
  if (!batch) throw noSuchBatch(id);
  return batch;
}

export function noSuchBatch(id: string): HttpRefusal {
  return new HttpRefusal("batch_not_found", `There is no batch ${texts.beginning(id, 64)}. List them with GET /v1/batches.`);
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
    as_of: times.isoOrNull(asOf(batch)),
    instance_id: batch.instanceId,
    error: batch.error && { code: batch.error.code, message: batch.error.message },
    cancel_reason: batch.cancelReason,
    parent_batch_id: batch.parentId,
    created_at: times.iso(batch.createdAt),
    started_at: times.isoOrNull(startedAt),
    updated_at: times.iso(batch.updatedAt),
    ended_at: times.isoOrNull(batch.endedAt),
  };
}
