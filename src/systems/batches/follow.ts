import { limitOf, MillraceError } from "millrace";
import type { Batch } from "./batch.ts";

/** How a batch is followed: a look a second. Whoever follows longer asks again, and goes on where it was. */
export const FOLLOWED = { pausesMs: [1000, 1000], lastsMs: 60_000 } as const;
const MAX_FOLLOWERS = 60;

/**
 * Counts one who begins to follow a batch. Errors: `rate_limited` when as many as may have begun within a minute, whether or not they
 * follow still.
 */
export async function countFollower(env: Env, tenantId: string): Promise<void> {
  const limit = limitOf(env, `followers/${tenantId}`, [{ limit: MAX_FOLLOWERS, periodMs: FOLLOWED.lastsMs }], { patienceMs: 0, tenantId });
  await limit.take().catch((error) => {
    if (!(error instanceof MillraceError) || error.code !== "retry_after") throw error;
    const said = `A tenant begins at most ${MAX_FOLLOWERS} streams a minute. Follow fewer batches, or ask GET /v1/batches/{id} now and then.`;
    throw new MillraceError("rate_limited", said, { delayMs: error.detail.delayMs });
  });
}

/** What a follower has seen when it has seen this state of a batch. */
export function seenAs({ progress, state }: Batch): string {
  return `${progress}-${state}`;
}

/** True for a batch that will not move on by itself. */
export function hasEnded({ state }: Batch): boolean {
  return ["complete", "cancelled", "errored"].includes(state);
}
