import { notRetryable } from "millrace";

/** Maximum size of a file in bytes. The limit keeps the number of chunks below the platform's limit of 10,000 steps. */
export const MAX_FILE_BYTES = 1024 ** 3;

/** Maximum length of an object's name in R2. R2 refuses a longer name with an error. */
export const MAX_KEY_BYTES = 1024;

/** Maximum number of rows in a request, and maximum size in bytes of a request with rows. */
export const MAX_ITEMS = 1000;
export const MAX_ITEMS_BYTES = 1024 ** 2;

/** Maximum size of a row in bytes. Longer rows of a file are reported and skipped. */
export const MAX_ROW_BYTES = 65_536;

/** A chunk reads rows that begin within this many bytes. Together with the longest row this limit bounds the memory of a step. */
export const CHUNK_BYTES = 262_144;

/** Maximum number of chunks in one batch. Each chunk is a step, so this maximum is also below the platform's limit. */
const MAX_CHUNKS = 9_000;

/**
 * Maximum number of stored rows in one page, and the number of bytes within which the rows must begin. These limits bound the memory of a
 * step.
 */
export const PAGE_ROWS = 500;
export const PAGE_BYTES = 1024 ** 2;

/**
 * Maximum number of rows of a file that are compared with stored rows at once. The limit is necessary because stored rows can be large even
 * if the file's rows are short. A chunk of facts has at most this many rows, so that one comparison reads each ledger once.
 */
export const COMPARED_ROWS = 200;

/**
 * Counts the chunks that a run of a batch has processed. Errors: `not_retryable` before the platform would end the run without an error
 * message.
 */
export function chunkCount(): { count(): void } {
  let chunks = 0;
  return {
    count() {
      if (++chunks > MAX_CHUNKS)
        throw notRetryable(`The batch has more than ${MAX_CHUNKS} chunks, which is as many steps as a workflow may have: split it in two.`);
    },
  };
}
