import { defineStep, retryAfter } from "millrace";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { keeperRound, rows } from "../harness.ts";
import { comes } from "./scene.ts";

/** An upstream that refuses one request with a Retry-After of one hour. */
export function refusing() {
  const state = { refused: false };
  const next = () => {
    if (state.refused) return "it";
    state.refused = true;
    throw retryAfter(3_600_000, "Too many requests.", 429);
  };
  return { state, next };
}

/** An effect that happens at its first attempt, with a lost answer. `next` gives the answers of the further attempts. */
export function losing(log: string[], next: () => string) {
  const undo = defineStep<Done<unknown, unknown>, unknown>({
    effect: "natural",
    run: async ({ input }) => log.push(`undo ${String(input.output)}`),
  });
  let tries = 0;
  const run = async () => {
    if (++tries > 1) return next();
    log.push("done");
    throw new Error("The answer was lost.");
  };
  return defineStep({ effect: "keyed", run, undo, retries: { limit: 5, delay: 1000, backoff: "constant" } });
}

/** Executes all open operator actions by rounds of the keeper. */
export const carriedOut = (id: string) =>
  comes(async () => {
    await keeperRound();
    return (await rows("SELECT 1 FROM millrace_actions WHERE instance_id = ?1 AND applied_at IS NULL", id)).length === 0;
  });
