import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "./wrangler-dev.ts";

const LOOK_EVERY_MS = 5000;
/** Far longer than any request of ours takes, also on a busy machine. */
export const PATIENCE_MS = 30_000;

/**
 * Resolves when an engine has not answered for a long time: wrangler starts another proxy in the place of one that was killed, but it
 * never answers (see `runDev`). Never resolves once `over` is aborted, or after wrangler has ended.
 */
export async function untilDeaf(
  engine: Pick<Engine, "answers"> & { ended: Promise<unknown> },
  over: AbortSignal,
  { lookEveryMs = LOOK_EVERY_MS, patienceMs = PATIENCE_MS } = {},
): Promise<"deaf"> {
  let ended = false;
  void engine.ended.then(() => {
    ended = true;
  });
  while (!over.aborted) {
    await sleep(lookEveryMs, undefined, { signal: over }).catch(() => undefined);
    if (over.aborted || ended) break;
    if (!(await engine.answers(patienceMs)) && !ended && !over.aborted) return "deaf";
  }
  return new Promise(() => undefined);
}
