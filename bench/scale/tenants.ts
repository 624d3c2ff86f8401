import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { miniflare } from "../../packages/millrace/cli/local/miniflare.ts";
import { median, round, say } from "../figures.ts";
import { bundle, ROOT, type Runtime } from "./door.ts";

/** The commands of the noisy tenant that wait while the quiet tenant is measured, and the commands of the quiet tenant. */
const NOISE = 50_000;
const QUIET = 30;
const BATCH = 1000;

/** Compares the time from command to end of a quiet tenant with and without a noisy tenant in the same workflow and queue. */
export async function tenantFigures() {
  const { ratio, deep, longest } = await measure("rated");
  const figures = { quiet_tenant_ratio: ratio, quiet_tenant_waiting: deep, quiet_tenant_longest_ms: longest };
  return { ...figures, quiet_tenant_ratio_concurrency: (await measure("call")).ratio };
}

/** The figures of a workflow, in a separate runtime, because the backlog remains at the end. */
async function measure(workflow: string) {
  const { Miniflare, convertV4MiniflareOptions } = miniflare();
  const runtime = new Miniflare(
    convertV4MiniflareOptions({
      ...{ host: "127.0.0.1", port: 0, cf: false, logRequests: false, handleStructuredLogs: () => undefined },
      ...{ modules: true, compatibilityDate: "2026-10-01", compatibilityFlags: ["nodejs_compat"] },
      name: "tenants",
      script: bundle("tenants-worker.ts", ROOT),
      bindings: { MILLRACE_KEY: "bench" },
      d1Databases: { DB: "tenants" },
      r2Buckets: { PAYLOADS: "tenants" },
      durableObjects: { RECORDER: { className: "Recorder", useSQLite: true }, KEEPER: { className: "Keeper", useSQLite: true } },
      workflows: { CALL: { name: "call", className: "Call" }, RATED: { name: "rated", className: "Rated" } },
      queueProducers: { TENANT_COMMANDS: "tenant-commands" },
      queueConsumers: { "tenant-commands": { maxBatchSize: 100, maxBatchTimeout: 0 } },
    }),
  ) as unknown as Runtime;
  try {
    await runtime.ready;
    const db = await runtime.getD1Database("DB", "tenants");
    const migrations = join(ROOT, "packages/millrace/migrations");
    for (const name of readdirSync(migrations).filter((file) => file.endsWith(".sql"))) {
      await db.prepare(readFileSync(join(migrations, name), "utf8")).run();
    }
    const ask = async <T>(path: string): Promise<T> => {
      const answer = await runtime.dispatchFetch(`http://tenants${path}`);
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${path} answered: ${text.slice(0, 500)}`);
      return JSON.parse(text) as T;
    };
    const quiet = (count: number) => ask<number[]>(`/quiet?workflow=${workflow}&count=${count}`);
    await quiet(5);
    const alone = median(await quiet(QUIET));
    for (let sent = 0; sent < NOISE; sent += BATCH) await ask(`/noisy?workflow=${workflow}&count=${BATCH}`);
    const deep = await ask<number>(`/depth?workflow=${workflow}`);
    const all = await quiet(QUIET);
    const [beside, longest] = [median(all), round(Math.max(...all))];
    const left = await ask<number>(`/depth?workflow=${workflow}`);
    say(
      `command to end of a quiet tenant, workflow "${workflow}"`,
      `${round(alone)} ms alone`,
      `${round(beside)} ms beside ${deep} to ${left} waiting`,
      `at most ${longest} ms`,
      round(beside / alone),
    );
    return { ratio: round(beside / alone), deep, longest };
  } finally {
    await runtime.dispose();
  }
}
