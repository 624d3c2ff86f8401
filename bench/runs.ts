import { atomically, type EngineEnv, MillraceError, sql, traces } from "millrace";
import { type Catalog, outbox } from "millrace/worker";
import type { CounterEnv } from "../packages/millrace/src/counters/client.ts";
import { acceptance } from "../packages/millrace/src/intake/accept/accept.ts";
import { acceptCommands } from "../packages/millrace/src/intake/accept/enqueue.ts";
import type { LimitEnv } from "../packages/millrace/src/limits/client.ts";
import { startInstances } from "../packages/millrace/src/recorder/start.ts";
import { insertAccepted } from "../packages/millrace/src/store/instances/accept.ts";
import { ended, type RunInline } from "./workflows.ts";

export interface BenchEnv extends EngineEnv, LimitEnv, CounterEnv {
  RAW: Workflow;
  GUARDED: Workflow;
  INLINE: Workflow;
}

type Command = typeof RunInline;

/** Instances of the raw workflow per second, between the first creation of an instance and the end of the last instance. */
export async function rawRuns(env: BenchEnv, count: number, series: string): Promise<number> {
  const ids = names(count, series);
  const start = Date.now();
  for (let at = 0; at < count; at += 100) {
    await env.RAW.createBatch({ instances: ids.slice(at, at + 100).map((id) => ({ id, params: { id } })) });
  }
  await allEnded(ids);
  return count / ((Date.now() - start) / 1000);
}

/**
 * Instances per second for the workflow of a command, from the creation of the instances until all their rows have the status complete.
 * Another benchmark measures the acceptance of commands.
 */
export async function engineRuns(env: BenchEnv, count: number, series: string, command: Command): Promise<number> {
  const ids = names(count, series);
  const accepted = await Promise.all(
    ids.map(async (id) => {
      const to = {
        tenantId: "bench",
        source: "bench",
        correlationId: series,
        causationId: "bench",
        traceparent: traces.begin(),
        owner: id,
      };
      return acceptance(
        { name: command.type.slice("bench.".length) },
        await outbox.address(env.PAYLOADS, command.from({ id }), to),
        "bench-commands",
      );
    }),
  );
  await atomically(
    env.DB,
    sql.rows(accepted).map((rows) => insertAccepted(rows)),
  );
  const start = Date.now();
  for (let at = 0; at < count; at += 100) await startInstances(env, accepted.slice(at, at + 100), "first");
  await allEnded(ids);
  while (
    await env.DB.prepare("SELECT 1 FROM millrace_instances WHERE correlation_id = ?1 AND status <> 'complete' LIMIT 1").bind(series).first()
  )
    await scheduler.wait(5);
  return count / ((Date.now() - start) / 1000);
}

/** Milliseconds from the request to the end of the instance for the raw workflow, which `create` starts, at light load. */
export function rawLatency(env: BenchEnv, count: number, series: string): Promise<number[]> {
  return paced(names(count, series), async (id) => {
    await env.RAW.create({ id, params: { id } });
  });
}

/** Milliseconds from the request to the end of the instance, for a command that the API accepts and the queue delivers. */
export function engineLatency(env: BenchEnv, catalog: Catalog, count: number, series: string, { type }: Command): Promise<number[]> {
  return paced(names(count, series), async (id) => {
    const [answer] = await acceptCommands(env, catalog, { tenantId: "bench", source: "bench" }, [{ type, payload: { id } }]);
    if (answer instanceof MillraceError) throw answer;
  });
}

/** Sends ten requests per second and measures each instance. */
async function paced(ids: string[], ask: (id: string) => Promise<void>): Promise<number[]> {
  const started = new Map<string, number>();
  for (const id of ids) {
    started.set(id, Date.now());
    await ask(id);
    await scheduler.wait(100);
  }
  await allEnded(ids);
  return ids.map((id) => (ended.get(id) ?? 0) - (started.get(id) ?? 0));
}

async function allEnded(ids: string[]): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!ids.every((id) => ended.has(id))) {
    if (Date.now() > deadline) throw new Error("The instances did not end within two minutes.");
    await scheduler.wait(2);
  }
}

function names(count: number, series: string): string[] {
  return Array.from({ length: count }, (_, index) => `${series}-${index}`);
}
