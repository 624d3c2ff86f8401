import { notRetryable } from "millrace";

/** Maximum size of a file in bytes, so that its chunks stay below the platform's 10,000 steps. */
export const MAX_FILE_BYTES = 1024 ** 3;

/** Maximum length of an object's name in R2. R2 refuses a longer name with an error. */
export const MAX_KEY_BYTES = 1024;

/** Maximum rows in a request, and the maximum size of such a request in bytes. */
export const MAX_ITEMS = 1000;
export const MAX_ITEMS_BYTES = 1024 ** 2;

/** Maximum size of a row in bytes. Longer rows of a file are reported and skipped. */
export const MAX_ROW_BYTES = 65_536;

/** A chunk reads rows that begin within this many bytes. Together with the longest row this limit bounds the memory of a step. */
export const CHUNK_BYTES = 262_144;

/** Maximum chunks of one batch. Each chunk is a step, so this maximum is below the platform's limit too. */
const MAX_CHUNKS = 9_000;

/** Maximum stored rows of one page, and the bytes within which they must begin. These limits bound the memory of a step. */
export const PAGE_ROWS = 500;
export const PAGE_BYTES = 1024 ** 2;

/**
 * Maximum rows of a file that are compared with stored rows at once: stored rows can be large even if the file's are short. A chunk of
 * facts is not larger, so that ledgers are read once.
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
