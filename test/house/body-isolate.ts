import { parentPort, workerData } from "node:worker_threads";
import * as z from "zod";
import { issuesIn } from "../../packages/millrace/src/contract/envelope.ts";
import { MillraceError } from "../../packages/millrace/src/contract/errors.ts";
import { parseBounded } from "../../packages/millrace/src/contract/limits.ts";

/** A schema with every kind of check that a body's fields can have: strict object, record, list. */
const schema = z.strictObject({
  type: z.string(),
  payload: z.strictObject({
    named: z.record(z.string(), z.strictObject({ a: z.number() })).optional(),
    list: z.array(z.strictObject({ a: z.number() })).optional(),
  }),
});

/** Reads a body as the API does: bytes, text, bounds, schema. */
function read(bytes: Uint8Array): string {
  try {
    const value = parseBounded(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
    const parsed = schema.safeParse(value);
    if (parsed.success) return "read";
    return `${issuesIn(schema, value, parsed.error).length} issues`;
  } catch (error) {
    if (error instanceof MillraceError) return error.code;
    throw error;
  }
}

parentPort?.postMessage(read(workerData as Uint8Array));
