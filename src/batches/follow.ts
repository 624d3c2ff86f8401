import { type Batch, findBatch } from "./batch.ts";

/** 600 looks in the longest following: a request may ask D1 a thousand times. */
const LOOK_EVERY_MS = 1000;
/** A proxy that hears nothing for long hangs up. */
const SIGN_OF_LIFE_MS = 15_000;
/** Whoever follows longer asks again, and goes on where it was. */
const LONGEST_MS = 600_000;

/** What a follower is told: how far the batch is, or that it still lives. */
type News = { id: string; batch: Batch; ended: boolean } | "alive";

/** Follows a batch from the state that a follower has seen, until it ends or stops. */
export async function* followBatch(db: D1Database, first: Batch, seen: string | undefined): AsyncGenerator<News> {
  const giveUpAt = Date.now() + LONGEST_MS;
  let spokeAt = Date.now();
  let last = seen;
  for (let batch: Batch | undefined = first; batch && Date.now() < giveUpAt; batch = await findBatch(db, first.tenantId, first.batchId)) {
    const id = `${batch.progress}-${batch.state}`;
    const ended = ["complete", "cancelled", "errored"].includes(batch.state);
    if (id !== last || ended) yield { id, batch, ended };
    else if (Date.now() - spokeAt > SIGN_OF_LIFE_MS) yield "alive";
    if (id !== last || Date.now() - spokeAt > SIGN_OF_LIFE_MS) spokeAt = Date.now();
    if (ended) return;
    last = id;
    await scheduler.wait(LOOK_EVERY_MS);
  }
}
