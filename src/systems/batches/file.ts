import { errors, MillraceError, notRetryable } from "millrace";
import { type Batch, findBatch } from "./batch.ts";
import type { Layout } from "./layout.ts";
import { CHUNK_BYTES, MAX_ROW_BYTES } from "./limits.ts";

/** Number of bytes that are read at once: a chunk, plus the longest row that may begin at the chunk's last byte. */
const WINDOW_BYTES = CHUNK_BYTES + MAX_ROW_BYTES + 2;

/** Returns the folder for files that the tenant puts into the bucket itself. */
export function filesFolder(tenantId: string): string {
  return `files/${tenantId}/`;
}

/** Returns the folder of a batch's own files, which are the upload, the reports and the result. */
export function batchFolder(tenantId: string, batchId: string): string {
  return `batches/${tenantId}/${batchId}/`;
}

function uploadFolder(tenantId: string, batchId: string): string {
  return `${batchFolder(tenantId, batchId)}upload/`;
}

/** Removes a batch's uploaded files. */
export async function removeUploads(bucket: R2Bucket, tenantId: string, batchId: string): Promise<void> {
  const { objects } = await bucket.list({ prefix: uploadFolder(tenantId, batchId) });
  if (objects.length > 0) await bucket.delete(objects.map(({ key }) => key));
}

/**
 * Reads a range of a batch's file, in exactly the accepted version. Errors: `not_retryable` if that version of the file does not exist any
 * more.
 */
export async function readWindow(bucket: R2Bucket, batch: Batch, offset: number): Promise<Uint8Array> {
  const { fileKey, fileEtag, totalBytes } = batch;
  if (fileKey === null || fileEtag === null || totalBytes === null) throw notRetryable(`The batch ${batch.batchId} names no file.`);
  const length = Math.min(WINDOW_BYTES, totalBytes - offset);
  if (length <= 0) return new Uint8Array();
  const object = await bucket.get(fileKey, { range: { offset, length }, onlyIf: { etagMatches: fileEtag } });
  if (object === null) {
    throw notRetryable(`The file ${fileKey} is missing in the bucket: restore it (etag ${fileEtag}), then retry the instance.`);
  }
  if (!("body" in object)) {
    throw notRetryable(
      `The file ${fileKey} has changed since its batch was accepted: restore the old version (etag ${fileEtag}) and retry the instance, or cancel the batch and start a new one.`,
    );
  }
  return new Uint8Array(await object.arrayBuffer());
}

/** A file in the bucket, with its version. */
export interface StoredFile {
  key: string;
  etag: string;
  size: number;
  /** The layout of the file's rows, if a batch has already stored the layout. */
  layout?: Layout | null;
}

/**
 * Stores an uploaded file as a stream. Each upload has its own path, so two concurrent uploads cannot mix. Errors: `invalid_payload` if the
 * body's length differs from the announced length.
 */
export async function storeUpload(
  bucket: R2Bucket,
  tenantId: string,
  batchId: string,
  body: ReadableStream | null,
  length: number,
): Promise<StoredFile> {
  const key = `${uploadFolder(tenantId, batchId)}${crypto.randomUUID()}`;
  const { readable, writable } = new FixedLengthStream(length);
  const piped = (body ?? new Blob().stream()).pipeTo(writable);
  const [stored, sent] = await Promise.allSettled([bucket.put(key, readable), piped]);
  if (stored.status === "fulfilled" && stored.value && sent.status === "fulfilled") {
    return { key, etag: stored.value.etag, size: stored.value.size };
  }
  const cause: unknown = sent.status === "rejected" ? sent.reason : stored.status === "rejected" ? stored.reason : undefined;
  if (!errors.messageOf(cause).includes("FixedLengthStream")) throw cause;
  throw new MillraceError("invalid_payload", `The body was not the ${length} bytes that Content-Length says.`, {
    issues: [{ path: "Content-Length", message: "does not fit the body" }],
    cause,
  });
}

/**
 * Finds a file in the tenant's own folder. If the file does not exist any more but the batch does, the function returns the data that the
 * batch has stored about the file. The tenant cannot use any other file of the bucket.
 */
export async function findFile(env: Env, tenantId: string, batchId: string, key: string): Promise<StoredFile | undefined> {
  if (!key.startsWith(filesFolder(tenantId))) return undefined;
  const object = await env.PAYLOADS.head(key);
  if (object) return { key, etag: object.etag, size: object.size };
  const known = await findBatch(env.DB, tenantId, batchId);
  if (known?.fileKey !== key || known.fileEtag === null || known.totalBytes === null) return undefined;
  return { key, etag: known.fileEtag, size: known.totalBytes, layout: known.layout };
}
