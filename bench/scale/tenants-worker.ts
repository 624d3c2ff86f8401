import { defineCommand, defineConsumer, defineQueue, defineWorkflow, type EngineEnv, enqueue } from "millrace";
import { catalog, dispatch, entrypoint, keeper, keeperOf, Recorder } from "millrace/worker";
import * as z from "zod";

// A Worker with two workflows: "call" limits the instances of each tenant, and "rated" has no options. A noisy tenant fills the backlog, and
// a quiet one sends a command now and then.

export { Recorder };

const queue = defineQueue({ name: "tenant-commands" });
const command = (type: string) =>
  defineCommand({ type, payload: z.object({ id: z.string() }), key: ({ id }) => id, subject: ({ id }) => id, queue });
const on = { call: command("tenant.call"), rated: command("tenant.rated") };
type Name = keyof typeof on;
/**
 * An instance calls an upstream for 500 ms. With 50 ms the ratio was 1.9 to 3.4 on a busy machine, because both tenants share one thread.
 */
const UPSTREAM_MS = 500;
const call = defineWorkflow({
  name: "call",
  on: on.call,
  concurrency: { key: () => "all", limit: 2 },
  run: ({ step }) => step.read("call", async () => void (await scheduler.wait(UPSTREAM_MS))),
});
const rated = defineWorkflow({
  name: "rated",
  on: on.rated,
  run: ({ step }) => step.read("call", async () => void (await scheduler.wait(UPSTREAM_MS))),
});
const app = catalog({ consumers: [defineConsumer({ queue, starts: [call, rated] })] });
export class Call extends entrypoint(call, app) {}
export class Rated extends entrypoint(rated, app) {}
export class Keeper extends keeper({ catalog: app }) {
  constructor(ctx: DurableObjectState, env: EngineEnv) {
    super(ctx, withRate(env));
  }
}

/**
 * The creations of the workflow "rated" per second, and at once. The deployed platform permits 100; the local runtime could not run as many
 * instances beside the measured ones.
 */
const RATE = 10;
const bucket = { tokens: RATE, at: Date.now() };

/** The local platform has no creation rate. */
function withRate<Env extends EngineEnv>(env: Env): Env {
  const { RATED: real } = env as unknown as { RATED: Workflow };
  const createBatch = async ({ instances }: { instances: WorkflowInstanceCreateOptions[] }) => {
    bucket.tokens = Math.min(RATE, bucket.tokens + ((Date.now() - bucket.at) / 1000) * RATE);
    bucket.at = Date.now();
    const most = Math.min(instances.length, Math.floor(bucket.tokens));
    bucket.tokens -= most;
    const { created, errors } =
      most === 0 ? { created: [], errors: [] } : await real.createBatch({ instances: instances.slice(0, most) } as never);
    const refused = instances.slice(most).map(({ id }, index) => ({ index: most + index, id, code: 429, message: "429 rate limited" }));
    return { created, errors: [...errors, ...refused] };
  };
  return { ...env, RATED: { createBatch, get: (id: string) => real.get(id) } };
}

console.log = () => undefined;
console.warn = () => undefined;

const takeIn = dispatch(app);

async function accept(env: EngineEnv, workflow: Name, tenantId: string, ids: readonly string[]): Promise<string[]> {
  const answers = await enqueue(
    env,
    app,
    { tenantId, source: "bench" },
    ids.map((id) => ({ command: on[workflow], payload: { id } })),
  );
  return answers.map((answer) => ("instanceId" in answer ? answer.instanceId : Promise.reject(answer))) as string[];
}

/** The milliseconds from each of `count` commands to the end of its instance, one after another. */
async function timed(env: EngineEnv, workflow: Name, count: number): Promise<number[]> {
  const all: number[] = [];
  for (let n = 0; n < count; n++) {
    const start = performance.now();
    const [id] = await accept(env, workflow, "quiet", [crypto.randomUUID()]);
    const done = env.DB.prepare("SELECT 1 FROM millrace_instances WHERE id = ?1 AND status = 'complete'").bind(id);
    while ((await done.first()) === null) await scheduler.wait(5);
    all.push(performance.now() - start);
    await scheduler.wait(100);
  }
  return all;
}

export default {
  queue: (batch: MessageBatch, env: EngineEnv) => takeIn(batch, withRate(env)),
  async fetch(request: Request, env: EngineEnv) {
    const { pathname, searchParams } = new URL(request.url);
    const count = Number(searchParams.get("count"));
    const workflow = searchParams.get("workflow") as Name;
    await keeperOf(env).arm();
    if (pathname === "/quiet") return Response.json(await timed(env, workflow, count));
    const ids = Array.from({ length: count }, () => crypto.randomUUID());
    if (pathname === "/noisy") await accept(env, workflow, "noisy", ids);
    const waiting = env.DB.prepare(
      "SELECT count(*) AS n FROM millrace_instances WHERE tenant_id = 'noisy' AND workflow = ?1 AND status IN ('accepted', 'queued')",
    ).bind(workflow);
    return Response.json((await waiting.first<{ n: number }>())?.n ?? 0);
  },
};
