/**
 * The timeout that the platform gets for a step. The platform's history shows a step's timeout, but not the step's effect class. Therefore
 * a timeout that ends in `READ_MS` marks a step that only reads.
 */
export function markedTimeoutMs(timeoutMs: number, reads: boolean): number {
  return Math.ceil(timeoutMs / SECOND_MS) * SECOND_MS + (reads ? READ_MS : 0);
}

/** True for a timeout in the platform's history that marks a step that only reads. */
export function saysRead(timeout: unknown): boolean {
  return typeof timeout === "number" && timeout % SECOND_MS === READ_MS;
}

const SECOND_MS = 1000;
/**
 * The milliseconds that mark the timeout of a step that only reads. Timeouts of older runs are whole seconds, so those steps do not
 * count as reads.
 */
const READ_MS = 7;
