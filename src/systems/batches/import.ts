import type { Commit } from "millrace";
import { advance } from "./batch.ts";
import { type BatchCall, openBatch } from "./open.ts";
import { keepPart } from "./parts.ts";
import { problemsText, toJsonl } from "./report.ts";
import { firstPlace, type Place, readChunk } from "./rows.ts";
import { withoutForgotten } from "./unsaid.ts";

/**
 * Imports one chunk. One write contains the chunk's rows and problems, the batch's progress and the next position. The output of the commit
 * is null after the last chunk.
 */
export async function importChunk(call: BatchCall, from: Place | undefined): Promise<Commit<Place | null>> {
  const opened = await openBatch(call, "import");
  if ("cancelled" in opened) return opened.cancelled;
  const { batch, dataset } = opened;
  const { env, envelope, batchId } = call;
  const place = from ?? firstPlace(batch);
  const { rows, problems, next, atEnd } = await readChunk(env.PAYLOADS, batch, dataset, place);

  const values = rows.map(({ value }) => value);
  const {
    statements = [],
    skipped = 0,
    refused = new Map<number, string>(),
  } = values.length > 0 ? await dataset.take(env, { batchId, envelope }, values) : {};
  const failures = await withoutForgotten(env, envelope.tenant_id, [
    ...problems,
    ...rows.flatMap(({ row, line, raw, input }, index) => {
      const problem = refused.get(index);
      return problem === undefined ? [] : [{ row, line, problem, raw, input }];
    }),
  ]);
  failures.sort((one, other) => one.row - other.row);
  // Rows that mention a forgotten person are not stored for another import.
  const again = failures.flatMap(({ input, raw }) => (input === undefined || raw === "" ? [] : [input as object]));

  return {
    statements: [
      ...statements,
      ...(await keepPart(env.PAYLOADS, batch, "errors", place.offset, problemsText(failures), toJsonl(again))),
      advance(batch, {
        readBytes: next.offset,
        done: rows.length - skipped - refused.size,
        failed: failures.length,
        skipped,
        ends: atEnd ? "complete" : undefined,
      }),
    ],
    output: atEnd ? null : next,
  };
}
