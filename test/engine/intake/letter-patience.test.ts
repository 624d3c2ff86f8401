import { createExecutionContext } from "cloudflare:test";
import { expect, it } from "vitest";
import worker from "../../probe/worker.ts";
import { dieAt, fresh, probeEnv } from "../harness.ts";

/** Returns the delay in seconds of refused dead letters at each attempt. The queue results of the test pool contain no delays. */
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

it("Q05 a dead letter that the database refuses to store is retried with growing delays, so that its hundred tries last for days", async () => {
  expect(await refusedAt(1, 2, 3, 6, 7, 100)).toEqual([60, 120, 240, 1920, 3600, 3600]);
});
