import { createExecutionContext, createMessageBatch } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { settleCounts } from "millrace/testing";
import { expect, it, onTestFinished } from "vitest";
import worker from "../../../src/worker.ts";
import { callerWith, fresh } from "../../api/client.ts";

/** Deletes the counts of the last minutes, because a p99 over all other tests' messages says nothing about one message. */
async function forgetMinutes(): Promise<void> {
  await settleCounts(env);
  await env.DB.prepare("DELETE FROM millrace_counts WHERE span = 'minute'").run();
}

it("the lag of facts' consumers is a gauge of the deployment: the delay of facts in their queue", async () => {
  await forgetMinutes();
  // Its alert would be sent in a later test.
  onTestFinished(forgetMinutes);
  const waited = { id: fresh("m"), attempts: 1, timestamp: new Date(Date.now() - 200_000), body: { poison: fresh() } };
  await worker.queue?.(createMessageBatch("projections", [waited]), env, createExecutionContext());
  await settleCounts(env);
  const { token } = await callerWith(["observe"]);
  const answer = await worker.fetch?.(
    new Request("http://localhost/metrics", { headers: { authorization: `Bearer ${token}` } }) as never,
    env,
    createExecutionContext(),
  );
  const text = new TextDecoder().decode(await answer?.arrayBuffer());
  const lag = Number(/^millrace_projection_lag_seconds\{projection="facts"\} (\S+)$/m.exec(text)?.[1] ?? Number.NaN);
  // Within the bounds of its bucket.
  expect(lag).toBeGreaterThan(30);
  expect(lag).toBeLessThanOrEqual(300);
});
