import { defineCommand, defineConsumer, defineQueue, defineWorkflow, type EngineEnv, enqueue } from "millrace";
import { catalog, dispatch, entrypoint, keeper, Recorder } from "millrace/worker";
import * as z from "zod";

// A Worker with one workflow that limits the instances of each tenant. A noisy tenant fills the backlog, and a quiet one sends a command now
// and then.

export { Recorder };
export class Keeper extends keeper({}) {}

const queue = defineQueue({ name: "tenant-commands" });
const on = defineCommand({
  type: "tenant.call",
  payload: z.object({ id: z.string() }),
  key: ({ id }) => id,
  subject: ({ id }) => id,
  queue,
});
/**
 * An instance calls an upstream for 500 ms. With 50 ms the ratio was 1.9 to 3.4 on a busy machine, because both tenants share one thread.
 */
const call = defineWorkflow({
  name: "call",
  on,
  concurrency: { key: () => "all", limit: 2 },
  run: ({ step }) => step.read("call", async () => void (await scheduler.wait(500))),
});
const app = catalog({ consumers: [defineConsumer({ queue, starts: [call] })] });
export class Call extends entrypoint(call, app) {}

console.log = () => undefined;
console.warn = () => undefined;

const takeIn = dispatch(app);

async function accept(env: EngineEnv, tenantId: string, ids: readonly string[]): Promise<string[]> {
  const answers = await enqueue(
    env,
    app,
    { tenantId, source: "bench" },
    ids.map((id) => ({ command: on, payload: { id } })),
  );
  return answers.map((answer) => ("instanceId" in answer ? answer.instanceId : Promise.reject(answer))) as string[];
}

/** The milliseconds from each of `count` commands to the end of its instance, one after another. */
async function timed(env: EngineEnv, count: number): Promise<number[]> {
  const all: number[] = [];
  for (let n = 0; n < count; n++) {
    const start = performance.now();
    const [id] = await accept(env, "quiet", [crypto.randomUUID()]);
    const done = env.DB.prepare("SELECT 1 FROM millrace_instances WHERE id = ?1 AND status = 'complete'").bind(id);
    while ((await done.first()) === null) await scheduler.wait(5);
    all.push(performance.now() - start);
    await scheduler.wait(100);
  }
  return all;
}

export default {
  queue: takeIn,
  async fetch(request: Request, env: EngineEnv) {
    const { pathname, searchParams } = new URL(request.url);
    const count = Number(searchParams.get("count"));
    if (pathname === "/quiet") return Response.json(await timed(env, count));
    if (pathname === "/noisy")
      await accept(
        env,
        "noisy",
        Array.from({ length: count }, () => crypto.randomUUID()),
      );
    const waiting = env.DB.prepare("SELECT count(*) AS n FROM millrace_instances WHERE tenant_id = 'noisy' AND slot_turn IS NOT NULL");
    return Response.json((await waiting.first<{ n: number }>())?.n ?? 0);
  },
};
