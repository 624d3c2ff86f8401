import { notRetryable } from "millrace";

/** Bytes of a file, so that its chunks stay below the platform's 10,000 steps. */
export const MAX_FILE_BYTES = 1024 ** 3;

/** Bytes of one row. What is longer is reported and passed over. */
export const MAX_ROW_BYTES = 65_536;

/** A chunk takes rows that begin within so many bytes: with the longest row behind them, what a step holds in memory. */
export const CHUNK_BYTES = 262_144;

/** Chunks of one batch, each of them a step: the platform's limit, again. */
const MAX_CHUNKS = 9_000;

/** Our rows of one page: at most so many, and only those that begin within so many bytes, which is what a step holds in memory. */
export const PAGE_ROWS = 500;
export const PAGE_BYTES = 1024 ** 2;

/**
 * Rows of a file that are held against ours at once: ours are as large as they are, however short the file's. A chunk of facts is no more,
 * or their ledgers would be read twice.
 */
export const COMPARED_ROWS = 200;

/** Counts a run's chunks. Errors: `not_retryable` before the platform would end the run without a word. */
export function chunkCount(): { count(): void } {
  let chunks = 0;
  return {
    count() {
      if (++chunks > MAX_CHUNKS)
        throw notRetryable(`The batch has more than ${MAX_CHUNKS} chunks, which is as many steps as a workflow may have: split it in two.`);
    },
  };
}
