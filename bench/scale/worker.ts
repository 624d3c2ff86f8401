import { defineCommand, defineConsumer, defineQueue, defineWorkflow, type EngineEnv } from "millrace";
import { engineRoutes } from "millrace/http";
import { catalog, entrypoint, keeper, Recorder } from "millrace/worker";
import * as z from "zod";
import { engineIntake } from "../intake.ts";

// A Worker that accepts commands, and consumes messages. `npm run bench -- scale` bundles this file with the present engine and with an
// earlier engine. No queue consumer receives the accepted commands.

export { Recorder };
export class Keeper extends keeper({}) {}

const queue = defineQueue({ name: "bench-commands" });
const on = defineCommand({
  type: "bench.empty",
  payload: z.object({ id: z.string() }),
  key: ({ id }) => id,
  subject: ({ id }) => id,
  queue,
});
const empty = defineWorkflow({ name: "empty", on, run: async () => undefined });
const app = catalog({ consumers: [defineConsumer({ queue, starts: [empty] })] });
export class Empty extends entrypoint(empty, app) {}

const api = engineRoutes(app, { console: false });

// A local runtime forwards every log line before the next one. A deployed Worker does not wait for log lines.
console.log = () => undefined;

/** `slowMs`: the delay of each D1 batch. D1 runs one batch at a time, so each batch waits for the delays of the earlier batches. */
const d1 = { transactions: 0, slowMs: 0, before: Promise.resolve() };
let isWatched = false;

function watch(db: D1Database): void {
  if (isWatched) return;
  isWatched = true;
  const prototype = Object.getPrototypeOf(db) as D1Database;
  const original = prototype.batch;
  prototype.batch = async function <T>(this: D1Database, statements: D1PreparedStatement[]) {
    d1.transactions++;
    if (d1.slowMs === 0) return original.call(this, statements) as Promise<D1Result<T>[]>;
    const { promise, resolve } = Promise.withResolvers<void>();
    const { before } = d1;
    d1.before = promise;
    await before;
    try {
      await scheduler.wait(d1.slowMs);
      return (await original.call(this, statements)) as D1Result<T>[];
    } finally {
      resolve();
    }
  };
}

export default {
  async fetch(request: Request, env: EngineEnv, ctx: ExecutionContext) {
    watch(env.DB);
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/intake") {
      const series = crypto.randomUUID().slice(0, 8);
      return Response.json(await engineIntake(env, app, Number(searchParams.get("count")), series));
    }
    if (pathname !== "/d1") return api.fetch(request, env, ctx);
    const { transactions } = d1;
    Object.assign(d1, { transactions: 0, slowMs: Number(searchParams.get("slow")) });
    return Response.json(transactions);
  },
};
