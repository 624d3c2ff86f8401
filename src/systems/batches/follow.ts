import { MillraceError } from "millrace";
import { limitOf } from "millrace/limits";
import type { Batch } from "./batch.ts";

/**
 * How the server polls a batch for a follower: once a second for a minute. After that the client reconnects, and continues from the last
 * state that the client has seen.
 */
export const FOLLOWED = { pausesMs: [1000, 1000], lastsMs: 60_000 } as const;
const MAX_FOLLOWERS = 60;

/**
 * Counts a new follower of a batch. Errors: `rate_limited` if the tenant has too many new followers per minute, even if the tenant's
 * earlier followers have disconnected.
 */
export async function countFollower(env: Env, tenantId: string): Promise<void> {
  const limit = limitOf(env, `followers/${tenantId}`, [{ limit: MAX_FOLLOWERS, periodMs: FOLLOWED.lastsMs }], { patienceMs: 0, tenantId });
  await limit.take().catch((error) => {
    if (!(error instanceof MillraceError) || error.code !== "retry_after") throw error;
    const said = `A tenant begins at most ${MAX_FOLLOWERS} streams a minute. Follow fewer batches, or poll GET /v1/batches/{id}.`;
    throw new MillraceError("rate_limited", said, { delayMs: error.detail.delayMs });
  });
}

/** Returns the version of a batch's state that a follower has seen. */
export function seenAs({ progress, state }: Batch): string {
  return `${progress}-${state}`;
}

/** True for a batch that makes no further progress without an operator. */
export function hasEnded({ state }: Batch): boolean {
  return ["complete", "cancelled", "errored"].includes(state);
}
