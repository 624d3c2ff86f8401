import { limitOf, MillraceError } from "millrace";
import { type Batch, findBatch } from "./batch.ts";

const LOOK_EVERY_MS = 1000;
/** A proxy that hears nothing for long hangs up. */
const SIGN_OF_LIFE_MS = 15_000;
/** Whoever follows longer asks again, and goes on where it was. As no more than 60 begin in this time, no more than 60 are open. */
const LONGEST_MS = 60_000;
const MAX_FOLLOWERS = 60;

/**
 * Counts one who begins to follow a batch. Errors: `rate_limited` when as many as may have begun within a minute, whether or not they
 * follow still.
 */
export async function countFollower(env: Env, tenantId: string): Promise<void> {
  const limit = limitOf(env, `followers/${tenantId}`, [{ limit: MAX_FOLLOWERS, periodMs: LONGEST_MS }], { patienceMs: 0 });
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

/** What a follower is told: how far the batch is, or that it still lives. */
type News = { id: string; batch: Batch; ended: boolean } | "alive";

interface Follower {
  /** The state that it has seen. */
  seen: string | undefined;
  /** Asked before each look: false where the follower may not read any more. */
  mayRead: () => Promise<boolean>;
}

/** Follows a batch from the state that a follower has seen, until it ends or stops, or the follower may not read any more. */
export async function* followBatch(db: D1Database, first: Batch, { seen, mayRead }: Follower): AsyncGenerator<News> {
  const giveUpAt = Date.now() + LONGEST_MS;
  let spokeAt = Date.now();
  let last = seen;
  for (let batch: Batch | undefined = first; batch && Date.now() < giveUpAt; batch = await findBatch(db, first.tenantId, first.batchId)) {
    const id = seenAs(batch);
    const ended = hasEnded(batch);
    if (id !== last || ended) yield { id, batch, ended };
    else if (Date.now() - spokeAt > SIGN_OF_LIFE_MS) yield "alive";
    if (id !== last || Date.now() - spokeAt > SIGN_OF_LIFE_MS) spokeAt = Date.now();
    if (ended) return;
    last = id;
    await scheduler.wait(LOOK_EVERY_MS);
    if (!(await mayRead())) return;
  }
}
