import type { EngineEnv } from "millrace";
import { catalog, keeper, Recorder as OfEngine } from "millrace/worker";
import { cellsOf } from "../../packages/millrace/src/contract/cells.ts";
import { recorderRate } from "../recorder.ts";

// A Worker with the recorders of several cells, in which each database delays its answers by a given time.

export class Keeper extends keeper({ catalog: catalog({ consumers: [] }) }) {}

console.log = () => undefined;

const slow = { ms: 0 };
/** The last batch of each database. A database runs one batch at a time. */
const last = new Map<string, Promise<unknown>>();

/** A database with a delay before each batch. */
function delayed(name: string, db: D1Database): D1Database {
  const batch = (statements: D1PreparedStatement[]) => {
    const run = async () => {
      if (slow.ms > 0) await scheduler.wait(slow.ms);
      return db.batch(statements);
    };
    const running = (last.get(name) ?? Promise.resolve()).then(run, run);
    last.set(name, running);
    return running;
  };
  return { prepare: (text: string) => db.prepare(text), batch } as D1Database;
}

function withDelays(env: EngineEnv): EngineEnv {
  const databases = Object.entries(env).filter(([name]) => /^DB(_\d+)?$/.test(name)) as [string, D1Database][];
  return { ...env, ...Object.fromEntries(databases.map(([name, db]) => [name, delayed(name, db)])) };
}

export class Recorder extends OfEngine {
  constructor(ctx: DurableObjectState, env: EngineEnv) {
    super(ctx, withDelays(env));
  }
}

export default {
  async fetch(request: Request, env: EngineEnv): Promise<Response> {
    const { searchParams } = new URL(request.url);
    slow.ms = Number(searchParams.get("slow"));
    const [waiting, count] = [Number(searchParams.get("waiting")), Number(searchParams.get("count"))];
    const cells = new Set(searchParams.get("cells")?.split(","));
    const measured = cellsOf(env).filter(({ CELL = 1 }) => cells.has(String(CELL)));
    const start = performance.now();
    await Promise.all(measured.map((cell) => recorderRate(cell, count, { shards: 2, waiting, series: crypto.randomUUID() })));
    return Response.json((performance.now() - start) / 1000);
  },
};
