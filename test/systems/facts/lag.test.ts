import { createExecutionContext, createMessageBatch } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { settleCounts } from "millrace/testing";
import { expect, it } from "vitest";
import worker from "../../../src/worker.ts";
import { callerWith, fresh, until } from "../../api/client.ts";

it("how far readers of facts are behind is a gauge of the deployment, by how long facts waited in their queue", async () => {
  const waited = { id: fresh("m"), attempts: 1, timestamp: new Date(Date.now() - 200_000), body: { poison: fresh() } };
  await worker.queue?.(createMessageBatch("projections", [waited]), env, createExecutionContext());
  await settleCounts(env);
  const { token } = await callerWith(["observe"]);
  const lagging = async () => {
    const answer = await worker.fetch?.(
      new Request("http://localhost/metrics", { headers: { authorization: `Bearer ${token}` } }) as never,
      env,
      createExecutionContext(),
    );
    const text = new TextDecoder().decode(await answer?.arrayBuffer());
    return Number(/^millrace_projection_lag_seconds\{projection="facts"\} (\S+)$/m.exec(text)?.[1] ?? Number.NaN);
  };
  // Of several messages it is the p99, within its bucket.
  expect(await until(lagging, (seconds) => seconds > 30)).toBeLessThanOrEqual(300);
});
