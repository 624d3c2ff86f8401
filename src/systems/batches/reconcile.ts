import { type Commit, ids } from "millrace";
import { FactObserved } from "../../messages/facts.ts";
import { forgottenAmong } from "../contacts/forgotten.ts";
import { advance, type Batch } from "./batch.ts";
import type { Dataset } from "./dataset.ts";
import { COMPARED_ROWS } from "./limits.ts";
import { type BatchCall, openBatch } from "./open.ts";
import { keepPart } from "./parts.ts";
import { type Finding, findingsText, problemsText } from "./report.ts";
import { firstPlace, type Place, readChunk } from "./rows.ts";
import { forgetKeys, insertKeys, selectKeys } from "./seen.ts";
import { withoutForgotten } from "./unsaid.ts";

/** The cursor of the search for stored rows that are not in the file. */
export interface Rest {
  after: string | null;
  /**
   * The number that the next part of the result gets. The number is greater than the numbers of parts that are numbered by a position in
   * the file.
   */
  part: number;
}

/**
 * The position at which a reconciliation continues. The position is first in the file, and then in the stored rows. After a cancellation
 * there is no position.
 */
export interface Compared {
  place?: Place;
  rest?: Rest;
}

/** Compares one chunk of the file with the stored rows. */
export async function compareChunk(call: BatchCall, from: Place | undefined): Promise<Commit<Compared>> {
  const opened = await openBatch(call, "reconcile");
  if ("cancelled" in opened) return { ...opened.cancelled, output: {} };
  const { batch, dataset } = opened;
  const { PAYLOADS: bucket } = call.env;
  const place = from ?? firstPlace(batch);
  const { rows, problems, next, atEnd } = await readChunk(bucket, batch, dataset, place);

  const findings: Finding[] = [];
  const shared: string[] = [];
  for (let at = 0; at < rows.length; at += COMPARED_ROWS) {
    const keyed = rows.slice(at, at + COMPARED_ROWS).map((one) => ({ ...one, key: dataset.keyOf(one.value) }));
    const stored = await dataset.ours(call.env, batch.tenantId, [...new Set(keyed.map(({ key }) => key))]);
    const ours = new Map(stored.map((value) => [dataset.keyOf(value), value]));
    shared.push(...ours.keys());
    for (const { row, line, value, key } of keyed) {
      const other = ours.get(key);
      const fields = other ? differing(dataset, value, other) : [];
      if (!other) findings.push({ finding: "only_there", key, row, line, fields });
      else if (fields.length > 0) findings.push({ finding: "different", key, row, line, fields });
    }
  }
  const absent = findings.filter(({ finding }) => finding === "only_there");
  const forgotten = await forgottenAmong(
    call.env,
    batch.tenantId,
    absent.map(({ key }) => key),
  );
  for (const finding of absent) finding.key = forgotten.get(finding.key) ?? finding.key;
  const onlyThere = absent.length;
  const different = findings.length - onlyThere;
  return {
    statements: [
      insertKeys(batch, shared),
      ...(await keepPart(bucket, batch, "errors", place.offset, problemsText(await withoutForgotten(call.env, batch.tenantId, problems)))),
      ...(await keepPart(bucket, batch, "result", place.offset, findingsText(batch, findings))),
      advance(batch, {
        readBytes: next.offset,
        done: rows.length,
        failed: problems.length,
        same: rows.length - findings.length,
        different,
        onlyThere,
      }),
    ],
    output: atEnd ? { rest: { after: null, part: (batch.totalBytes ?? 0) + 1 } } : { place: next },
  };
}

/** Searches a page of stored rows for rows that are not in the file. The last page publishes the result of the reconciliation as a fact. */
export async function compareRest(call: BatchCall, { after, part }: Rest): Promise<Commit<Rest | null>> {
  const opened = await openBatch(call, "reconcile");
  if ("cancelled" in opened) return opened.cancelled;
  const { batch, dataset } = opened;
  const { PAYLOADS: bucket, DB: db } = call.env;
  const { rows, next } = await dataset.page(call.env, batch.tenantId, { after, asOf: batch.createdAt });
  const keys = rows.map((row) => dataset.keyOf(row));
  const seen = await selectKeys(db, batch, keys);
  const missing = keys.filter((key) => !seen.has(key));
  const findings = missing.map((key): Finding => ({ finding: "only_here", key, row: null, line: null, fields: [] }));
  return {
    statements: [
      forgetKeys(batch, keys),
      ...(await keepPart(bucket, batch, "result", part, findingsText(batch, findings))),
      advance(batch, { onlyHere: findings.length, ends: next === null ? "complete" : undefined }),
    ],
    emit: next === null ? [outcomeOf({ ...batch, onlyHere: batch.onlyHere + findings.length })] : [],
    output: next === null ? null : { after: next, part: part + 1 },
  };
}

/** Returns the names of the compared fields that differ between two rows. */
function differing({ compared }: Dataset, one: object, other: object): string[] {
  const field = (row: object, name: string) => ids.fingerprint((row as Record<string, unknown>)[name] ?? compared[name]);
  return Object.keys(compared).filter((name) => field(one, name) !== field(other, name));
}

function outcomeOf({ batchId, dataset, same, different, onlyThere, onlyHere, rowsFailed }: Batch) {
  return FactObserved.from({
    fact_id: "reconciliation",
    entity: `batch/${batchId}`,
    type: "reconciliation",
    subtype: dataset,
    occurred_at: new Date().toISOString(),
    payload: { about: dataset, same, different, only_there: onlyThere, only_here: onlyHere, unreadable: rowsFailed },
  });
}
