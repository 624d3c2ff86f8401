/**
 * The time-out that the platform is told for a step, from the one that it has. What the platform's history says of a step does not tell one
 * that only reads from an effect, but how long it may take: reads alone have a time-out that ends so.
 */
export function markedTimeoutMs(timeoutMs: number, reads: boolean): number {
  return Math.ceil(timeoutMs / SECOND_MS) * SECOND_MS + (reads ? READ_MS : 0);
}

/** True for the time-out of a step that only reads, as the platform's history says it; false for whatever else that says. */
export function saysRead(timeout: unknown): boolean {
  return typeof timeout === "number" && timeout % SECOND_MS === READ_MS;
}

const SECOND_MS = 1000;
/** Whoever gives a time-out of his own gives none such: also what began before there was this mark is taken for no read. */
const READ_MS = 7;
