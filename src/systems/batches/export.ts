import type { Commit } from "millrace";
import { advance, type Batch } from "./batch.ts";
import { toCsv } from "./csv.ts";
import type { Dataset } from "./dataset.ts";
import { DATASETS } from "./datasets.ts";
import { type BatchCall, openBatch } from "./open.ts";
import { keepPart } from "./parts.ts";
import { toJsonl } from "./report.ts";

/** The cursor after which an export continues, and the number that the next part of the result gets. */
export interface Page {
  after: string;
  part: number;
}

/** Writes one page of rows as a part of the result. The output of the commit is null after the last page. */
export async function exportPage(call: BatchCall, from: Page | undefined): Promise<Commit<Page | null>> {
  const opened = await openBatch(call, "export");
  if ("cancelled" in opened) return opened.cancelled;
  const { batch, dataset } = opened;
  const { env } = call;
  const { rows, next } = await dataset.page(env, batch.tenantId, { after: from?.after ?? null, asOf: batch.createdAt });
  const part = from?.part ?? 0;
  return {
    statements: [
      ...(await keepPart(env.PAYLOADS, batch, "result", part, pageText(batch, dataset, rows))),
      advance(batch, { done: rows.length, ends: next === null ? "complete" : undefined }),
    ],
    output: next === null ? null : { after: next, part: part + 1 },
  };
}

/**
 * Returns the time at which an export's rows existed. The time is null if the rows can change during the export, and for other operations.
 */
export function asOf({ operation, dataset, createdAt }: Batch): number | null {
  return operation === "export" && DATASETS.get(dataset)?.dated ? createdAt : null;
}

function pageText({ format, formulas }: Batch, dataset: Dataset, rows: readonly object[]): string {
  if (format === "jsonl") return toJsonl(rows);
  return toCsv(
    rows.map((row) => dataset.toCells(row)),
    formulas,
  );
}
