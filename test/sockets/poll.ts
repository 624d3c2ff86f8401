import { setTimeout as sleep } from "node:timers/promises";

/** Polls until the condition holds, or fails after a while: a lease with a lost answer comes back after a minute. */
export async function poll(look: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 90_000; !(await look()); await sleep(20)) {
    if (Date.now() > deadline) throw new Error(`It never came to this: ${what}.`);
  }
}
