import type { EngineEnv } from "millrace";
import { rate } from "./coordination.ts";

interface Api {
  fetch(request: Request, env: EngineEnv, ctx: ExecutionContext): Response | Promise<Response>;
}

/**
 * Commands accepted per second by `POST /v1/commands`, with a separate request for each command. The commands are not processed, because their
 * queue has no consumer.
 */
export async function acceptRate(api: Api, { headers }: Request, env: EngineEnv, ctx: ExecutionContext, count: number, series: string) {
  const unlimited = { ...env, REQUESTS_PER_TOKEN: 0 } as EngineEnv;
  const authorization = headers.get("authorization") ?? "";
  let next = 0;
  return rate(count, async () => {
    const body = JSON.stringify({ type: "bench.unread", payload: { id: `${series}-${next++}` } });
    const asked = { method: "POST", headers: { authorization, "content-type": "application/json" }, body };
    const answer = await api.fetch(new Request("https://bench/v1/commands", asked), unlimited, ctx);
    if (answer.status !== 202) throw new Error(`A command was answered with ${answer.status}: ${await answer.text()}`);
  });
}
