import { createExecutionContext } from "cloudflare:test";
import { expect, it } from "vitest";
import worker from "../../probe/worker.ts";
import { dieAt, fresh, probeEnv } from "../harness.ts";

/** Seconds until refused dead letters come back, each at its own attempt. The pool's queue results contain no delays. */
async function refusedAt(...attempts: number[]): Promise<(number | undefined)[]> {
  const delays: (number | undefined)[] = [];
  const messages = attempts.map((attempt) => ({
    ...{ id: fresh("m"), timestamp: new Date(), attempts: attempt, body: { nonsense: true }, ack: () => {} },
    retry: (options?: QueueRetryOptions) => void delays.push(options?.delaySeconds),
  }));
  const died = dieAt("Q05 dead letter not yet stored");
  const batch = { queue: "probe-commands-dlq", messages, ackAll: () => {}, retryAll: () => {} } as unknown as MessageBatch;
  await worker.queue(batch, probeEnv, createExecutionContext());
  expect(died.died()).toBe(true);
  return delays;
}

it("Q05 a dead letter that the database refuses is retried with growing delays, so that its hundred tries last for days", async () => {
  expect(await refusedAt(1, 2, 3, 6, 7, 100)).toEqual([60, 120, 240, 1920, 3600, 3600]);
});
