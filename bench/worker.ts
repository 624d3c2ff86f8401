import { engineRoutes } from "millrace/http";
import { catalog, dispatch, entrypoint, keeper, Recorder } from "millrace/worker";
import { acceptRate } from "./accept.ts";
import { counterAddRate, limiterTakeRate } from "./coordination.ts";
import { createCopy, engineIntake, insertIntake, noIntake, plainIntake, rowsOf } from "./intake.ts";
import { confirmedProjection, engineProjection, plainProjection } from "./projections.ts";
import { recorderRate } from "./recorder.ts";
import { type BenchEnv, engineLatency, engineRuns, rawLatency, rawRuns } from "./runs.ts";
import { shownCost } from "./shown-cost.ts";
import { benching, empty, guarded, inline, RunGuarded, RunInline, unread, unreading } from "./workflows.ts";

export { Counter } from "millrace/counters";
export { RateLimit } from "millrace/limits";
export { Ledger } from "../src/systems/facts/ledger/ledger.ts";
export { Raw } from "./workflows.ts";
export { Recorder };
export class Keeper extends keeper({}) {}

const app = catalog({ consumers: [benching, unreading] });
export class Guarded extends entrypoint(guarded, app) {}
export class Inline extends entrypoint(inline, app) {}
export class Empty extends entrypoint(empty, app) {}
export class Unread extends entrypoint(unread, app) {}

const consume = dispatch(app);
const api = engineRoutes(app, { console: false });

// Log lines of the engine and of the compared patterns are dropped, because the local runtime waits until each log line is forwarded. A
// deployed Worker does not wait for log lines.
console.log = () => undefined;

/** D1 usage since the last read of the counts. */
const asked = { roundTrips: 0, rows_written: 0, rows_read: 0, object_requests: 0 };
let counting = false;

/** Counts every D1 batch of this process, and the rows that D1 reports as written. */
function countD1(db: D1Database): void {
  if (counting) return;
  counting = true;
  const prototype = Object.getPrototypeOf(db) as D1Database;
  const original = prototype.batch;
  prototype.batch = async function <T>(this: D1Database, statements: D1PreparedStatement[]) {
    const results = await original.call(this, statements);
    asked.roundTrips++;
    for (const { meta } of results) {
      asked.rows_written += meta.rows_written ?? 0;
      asked.rows_read += meta.rows_read ?? 0;
    }
    return results as D1Result<T>[];
  };
}

/** Counts every call to a recorder. */
function countCalls(methods: Record<string, unknown>): void {
  for (const name of Object.getOwnPropertyNames(methods)) {
    const own = methods[name];
    if (name === "constructor" || typeof own !== "function") continue;
    methods[name] = function (this: unknown, ...args: unknown[]) {
      asked.object_requests++;
      return own.apply(this, args);
    };
  }
}
countCalls(Recorder.prototype as unknown as Record<string, unknown>);

export default {
  async fetch(request: Request, env: BenchEnv, ctx: ExecutionContext) {
    const url = new URL(request.url);
    const count = Number(url.searchParams.get("count"));
    const series = crypto.randomUUID().slice(0, 8);
    countD1(env.DB);
    switch (url.pathname) {
      case "/healthz":
        await env.DB.prepare("CREATE TABLE IF NOT EXISTS processed (id TEXT PRIMARY KEY, at INTEGER NOT NULL)").run();
        await env.DB.prepare("CREATE TABLE IF NOT EXISTS bench_rows (id TEXT PRIMARY KEY, done INTEGER NOT NULL)").run();
        await createCopy(env.DB);
        return Response.json({ ok: true });
      case "/intake/plain":
        return Response.json(await plainIntake(env, count, series));
      case "/intake/engine":
        return Response.json(await engineIntake(env, app, count, series));
      case "/intake/insert":
        return Response.json(await insertIntake(env, count, series));
      case "/rows":
        return Response.json(rowsOf(count, series).length);
      case "/nothing":
        return Response.json(noIntake(count, series));
      case "/accept":
        return Response.json(await acceptRate(api, request, env, ctx, count, series));
      case "/projection/plain":
        return Response.json(await plainProjection(env, count, series));
      case "/projection/engine":
        return Response.json(await engineProjection(env, count, series));
      case "/projection/confirmed":
        return Response.json(await confirmedProjection(env, count, series));
      case "/recorder":
        return Response.json(await recorderRate(env, count, { shards: Number(url.searchParams.get("shards")), series }));
      case "/limiter":
        return Response.json(await limiterTakeRate(env, count, series));
      case "/counter":
        return Response.json(await counterAddRate(env, count, Number(url.searchParams.get("shards")), series));
      case "/runs/raw":
        return Response.json(await rawRuns(env, count, series));
      case "/runs/guarded":
        return Response.json(await engineRuns(env, count, series, RunGuarded));
      case "/runs/inline":
        return Response.json(await engineRuns(env, count, series, RunInline));
      case "/latency/raw":
        return Response.json(await rawLatency(env, count, series));
      case "/latency/engine":
        return Response.json(await engineLatency(env, app, count, series, RunGuarded));
      case "/latency/inline":
        return Response.json(await engineLatency(env, app, count, series, RunInline));
      case "/shown":
        return Response.json(await shownCost(env, count));
      case "/asked": {
        const now = { ...asked };
        Object.assign(asked, { roundTrips: 0, rows_written: 0, rows_read: 0, object_requests: 0 });
        return Response.json(now);
      }
      default:
        return new Response(null, { status: 404 });
    }
  },
  queue: (batch: MessageBatch, env: BenchEnv) => consume(batch, env),
};
