import { setTimeout as sleep } from "node:timers/promises";

/** Looks until what it sees is right, or fails after a while: a lease whose answer was lost comes back after a minute. */
export async function poll(look: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 90_000; !(await look()); await sleep(20)) {
    if (Date.now() > deadline) throw new Error(`It never came to this: ${what}.`);
  }
}
