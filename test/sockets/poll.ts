import { setTimeout as sleep } from "node:timers/promises";

/** Polls until the condition holds, or fails after a timeout: a lease whose response was lost is available again after a minute. */
export async function poll(look: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 90_000; !(await look()); await sleep(20)) {
    if (Date.now() > deadline) throw new Error(`The condition was never met: ${what}.`);
  }
}
