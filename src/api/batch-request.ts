import type { Context } from "hono";
import { errors, type Issue, MillraceError, texts } from "millrace";
import { bodies, HttpRefusal, idempotency } from "millrace/http";
import * as z from "zod";
import type { BatchRequest } from "../systems/batches/accept.ts";
import { type Batch, OPERATIONS } from "../systems/batches/batch.ts";
import { DATASETS } from "../systems/batches/datasets.ts";
import { findFile, type StoredFile, storeUpload } from "../systems/batches/file.ts";
import { FORMATS } from "../systems/batches/layout.ts";
import { MAX_FILE_BYTES, MAX_ITEMS, MAX_ITEMS_BYTES, MAX_KEY_BYTES, MAX_ROW_BYTES } from "../systems/batches/limits.ts";
import { countUpload } from "../systems/batches/uploads.ts";
import type { ApiEnv } from "./env.ts";

/** The content types of uploads, and their formats. */
const UPLOADS: Record<string, Batch["format"]> = { "text/csv": "csv", "application/x-ndjson": "jsonl" };

const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, "must be 1 to 64 letters, digits, - or _, beginning with a letter or digit")
  .meta({
    description:
      "The id names the batch: a repeated request with the same id returns the same batch. By default the id is the `Idempotency-Key`.",
  });
const dataset = z.enum([...DATASETS.keys()] as [string, ...string[]]);
const format = z.enum(FORMATS).default("csv");
const formulas = z.enum(["escape", "keep"]).default("escape").meta({
  description:
    "The notation of CSV cells. `escape`: an apostrophe precedes each formula; an import removes it. `keep`: the text of each cell is unchanged.",
});
/** Maximum number of validation issues in one response. */
const MAX_ISSUES = 20;
const manifest = z.strictObject({
  key: z
    .string()
    .min(1)
    .max(500)
    .refine((key) => texts.byteLength(key) <= MAX_KEY_BYTES, `must have at most ${MAX_KEY_BYTES} bytes`)
    .meta({ description: "The path of the file in the bucket, below `files/{tenant}/`." }),
  format,
});

/** The rows of a batch that are in the request itself. */
const items = z
  .array(z.looseObject({}))
  .min(1)
  .max(MAX_ITEMS)
  .meta({
    description: `Rows, as lines of a JSON Lines file: at most ${MAX_ITEMS}. One invalid row refuses the request.`,
    examples: [[{ contact_id: "c1", email: "ada@example.com", properties: { picture: "r2://files/acme/ada.png" } }]],
  });
const formOf = (operation: "import" | "reconcile") =>
  z
    .strictObject({
      ...{ operation: z.literal(operation), dataset, batch_id: name, formulas },
      manifest: manifest.optional(),
      items: items.optional(),
    })
    .refine(({ manifest, items }) => (manifest === undefined) !== (items === undefined), {
      path: ["manifest"],
      message: "or `items` must be given, and not both",
    });

export const uploadQuery = {
  operation: z.enum(["import", "reconcile"]).optional(),
  dataset: dataset.optional(),
  batch_id: name.optional(),
  formulas,
};
const uploadSchema = z.strictObject({ operation: z.enum(["import", "reconcile"]), dataset, batch_id: name, formulas });

const requestSchema = z.discriminatedUnion("operation", [
  formOf("import"),
  formOf("reconcile"),
  z.strictObject({ operation: z.literal("export"), dataset, batch_id: name, format, formulas }),
]);
/** The schema of a batch request for the OpenAPI document, which needs a single object. */
export const documentedSchema = z.strictObject({
  operation: z.enum(OPERATIONS),
  dataset,
  batch_id: name.optional(),
  manifest: manifest.optional().meta({ description: "The file, for an import or a reconciliation." }),
  items: items.optional(),
  format: format.optional().meta({ description: "The format of an export's result; default csv." }),
  formulas: formulas.optional(),
});

/** Reads the requested batch and its file from a request. An uploaded file is in the bucket when this function returns. */
export async function readBatchRequest(
  context: Context<ApiEnv>,
): Promise<{ request: BatchRequest; file: StoredFile | null; uploaded: boolean }> {
  const sent = bodies.mediaTypeOf(context.req);
  const uploadedAs = UPLOADS[sent];
  if (!uploadedAs && sent !== "application/json") {
    throw bodies.notTaken(sent, ...Object.keys(UPLOADS), "application/json");
  }
  return uploadedAs ? readUpload(context, uploadedAs) : readJsonRequest(context);
}

async function readUpload(context: Context<ApiEnv>, format: Batch["format"]) {
  const { operation, dataset, batch_id: batchId, formulas } = bodies.parse(uploadSchema, named(context, context.req.query()));
  const length = lengthOf(context.req.header("content-length"));
  const { tenantId } = context.var.caller;
  await countUpload(context.env.DB, tenantId, length);
  const file = await storeUpload(context.env.PAYLOADS, tenantId, batchId, context.req.raw.body, length);
  return { request: { operation, dataset, batchId, format, formulas }, file, uploaded: true };
}

async function readJsonRequest(context: Context<ApiEnv>) {
  const asked = bodies.parse(
    requestSchema,
    named(context, await bodies.read(context.req, z.looseObject({}), { maxBytes: MAX_ITEMS_BYTES })),
  );
  const { operation, dataset, batch_id: batchId, formulas } = asked;
  if (asked.operation === "export")
    return { request: { operation, dataset, batchId, format: asked.format, formulas }, file: null, uploaded: false };
  if (asked.manifest === undefined) {
    const file = await storeItems(context, dataset, batchId, asked.items ?? []);
    return { request: { operation, dataset, batchId, format: "jsonl" as const, formulas }, file, uploaded: true };
  }
  const { key, format } = asked.manifest;
  const file = await findFile(context.env, context.var.caller.tenantId, batchId, key);
  if (!file) {
    throw new HttpRefusal(
      "file_not_found",
      `There is no file ${texts.beginning(key, 200)} below files/${context.var.caller.tenantId}/. Put it there first.`,
    );
  }
  if (file.size > MAX_FILE_BYTES) throw tooLarge();
  return { request: { operation, dataset, batchId, format, formulas }, file, uploaded: false };
}

/** Stores the rows of a request as a file. Errors: `invalid_payload` with the position of each invalid row. */
async function storeItems(context: Context<ApiEnv>, dataset: string, batchId: string, items: readonly object[]): Promise<StoredFile> {
  const schema = DATASETS.get(dataset)?.schema;
  const lines = items.map((item) => `${JSON.stringify(item)}\n`);
  const issues = items.flatMap((item, index): Issue[] => {
    const place = `items.${index}`;
    if (texts.byteLength(lines[index] ?? "") > MAX_ROW_BYTES) return [{ path: place, message: `is larger than ${MAX_ROW_BYTES} bytes` }];
    const { error } = schema?.safeParse(item) ?? {};
    return error ? errors.issuesOf(error).map(({ path, message }) => ({ path: path ? `${place}.${path}` : place, message })) : [];
  });
  if (issues.length > 0) throw bodies.invalid(issues.slice(0, MAX_ISSUES));
  const text = lines.join("");
  const length = texts.byteLength(text);
  const { tenantId } = context.var.caller;
  await countUpload(context.env.DB, tenantId, length);
  return storeUpload(context.env.PAYLOADS, tenantId, batchId, new Blob([text]).stream(), length);
}

/**
 * Adds the batch's id to a batch request: the id in the request's body, or the `Idempotency-Key` header. Errors: `invalid_payload` if the
 * key is not a valid id, or differs from the request's id.
 */
function named({ req }: Context<ApiEnv>, asked: Record<string, unknown>): Record<string, unknown> {
  const key = idempotency.key(req.header("idempotency-key"));
  if (key === undefined) return asked;
  const message = name.safeParse(key).error?.issues[0]?.message;
  if (message) throw bodies.invalid([{ path: "Idempotency-Key", message: `${message}: it is the batch's id` }]);
  if (asked.batch_id === undefined || asked.batch_id === key) return { ...asked, batch_id: key };
  throw bodies.invalid([{ path: "Idempotency-Key", message: "differs from `batch_id`: send only one of them" }]);
}

/** R2 needs a stream's length in advance. */
function lengthOf(header: string | undefined): number {
  const length = Number(header);
  if (header === undefined || !Number.isSafeInteger(length) || length < 0) {
    throw new HttpRefusal(
      "length_required",
      "The request has no Content-Length, which the upload to the bucket needs. Send it with the file.",
    );
  }
  if (length > MAX_FILE_BYTES) throw tooLarge();
  return length;
}

function tooLarge(): MillraceError {
  return new MillraceError("payload_too_large", `A batch takes files of up to ${MAX_FILE_BYTES} bytes: split it.`);
}
