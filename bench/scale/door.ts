import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { sourceDoors } from "../../packages/millrace/cli/local/doors.ts";
import { miniflare } from "../../packages/millrace/cli/local/miniflare.ts";
import { insertToken } from "../../packages/millrace/cli/local/token.ts";
import { WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";
import { newToken } from "../../packages/millrace/src/contract/token.ts";
import { median, round, say } from "../figures.ts";
import { takenBy } from "../processor.ts";
import type { Round } from "./callers.ts";

/** The engine before commands were gathered. Its hashes come from `@noble/hashes`, which is a development dependency for this reason. */
const BEFORE = "c27d0fe4";
export const ROOT = join(import.meta.dirname, "../..");
const CALLERS = 64;
const SLOW_MS = 5;

export interface Runtime {
  ready: Promise<URL>;
  dispatchFetch(url: string): Promise<{ ok: boolean; text(): Promise<string> }>;
  getD1Database(binding: string, worker: string): Promise<{ prepare(text: string): { run(): Promise<unknown> } }>;
  dispose(): Promise<void>;
}
type Build = "now" | "before";
interface Asked {
  build: Build;
  /** The number of concurrent callers; 0 for messages of a queue. */
  callers: number;
  count: number;
  slow?: number;
}

/**
 * Compares `POST /v1/commands` with an earlier engine in one runtime: concurrent callers with a fast and a slow database, and a single
 * caller. Also compares the consumer of commands. The processor time of a message includes the time to create the message.
 */
export async function doorFigures(folder: string, rounds: number) {
  const before = join(folder, "before");
  rmSync(before, { recursive: true, force: true });
  mkdirSync(before, { recursive: true });
  const archive = execFileSync("git", ["archive", BEFORE, "packages/millrace/src", "packages/millrace/migrations"], {
    cwd: ROOT,
    maxBuffer: 1e9,
  });
  execFileSync("tar", ["-x", "-C", before], { input: archive });
  const page = "packages/millrace/src/http/console/built.js";
  if (existsSync(join(ROOT, page))) cpSync(join(ROOT, page), join(before, page));

  const { text: token } = newToken();
  const trees = { now: ROOT, before };
  const { Miniflare, convertV4MiniflareOptions } = miniflare();
  const common = { modules: true, compatibilityDate: "2026-10-01", compatibilityFlags: ["nodejs_compat"] };
  const measured = (name: Build) => ({
    ...common,
    name,
    script: bundle("worker.ts", trees[name]),
    bindings: { MILLRACE_KEY: "bench", REQUESTS_PER_TOKEN: "0" },
    d1Databases: { DB: name },
    r2Buckets: { PAYLOADS: name },
    durableObjects: {
      RECORDER: { className: "Recorder", useSQLite: true },
      KEEPER: { className: "Keeper", useSQLite: true },
    },
    workflows: { EMPTY: { name: `empty-${name}`, className: "Empty" } },
    queueProducers: { BENCH_COMMANDS: `bench-commands-${name}` },
  });
  const runtime = new Miniflare(
    convertV4MiniflareOptions({
      host: "127.0.0.1",
      port: 0,
      cf: false,
      logRequests: false,
      handleStructuredLogs: () => undefined,
      workers: [
        { ...common, name: "callers", script: bundle("callers.ts", ROOT), serviceBindings: { NOW: "now", BEFORE: "before" } },
        measured("now"),
        measured("before"),
      ],
    }),
  ) as unknown as Runtime;
  try {
    await runtime.ready;
    for (const build of ["now", "before"] as const) {
      const db = await runtime.getD1Database("DB", build);
      const migrations = join(trees[build], "packages/millrace/migrations");
      const files = readdirSync(migrations)
        .filter((name) => name.endsWith(".sql"))
        .sort();
      const texts = [...files.map((name) => readFileSync(join(migrations, name), "utf8")), insertToken(token)];
      for (const text of texts) await db.prepare(text).run();
    }
    const ask = async ({ build, callers, count, slow = 0 }: Asked): Promise<Round & { processorUs: number }> => {
      const from = takenBy(children()) ?? Number.NaN;
      const answer = await runtime.dispatchFetch(
        `http://callers/?build=${build}&callers=${callers}&count=${count}&slow=${slow}&token=${token}`,
      );
      const text = await answer.text();
      if (!answer.ok) throw new Error(`The callers answered: ${text.slice(0, 500)}`);
      return { ...(JSON.parse(text) as Round), processorUs: ((takenBy(children()) ?? Number.NaN) - from) / count };
    };
    return await compare(ask, rounds);
  } finally {
    await runtime.dispose();
  }
}

async function compare(ask: (asked: Asked) => Promise<Round & { processorUs: number }>, rounds: number) {
  /** Alternates both builds. The first round of each build warms up the runtime and is not counted. */
  const both = async (how: Omit<Asked, "build">) => {
    const all: Record<Build, (Round & { processorUs: number })[]> = { now: [], before: [] };
    for (let time = 0; time <= rounds; time++) {
      for (const build of ["before", "now"] as const) {
        const measured = await ask({ build, ...how });
        if (time > 0) all[build].push(measured);
      }
    }
    const figure = (build: Build, of: keyof Round | "processorUs") => median(all[build].map((one) => one[of]));
    const ratio = (of: keyof Round | "processorUs") => median(all.now.map((one, index) => one[of] / (all.before[index]?.[of] ?? 0)));
    return { figure, ratio };
  };
  const fast = await both({ callers: CALLERS, count: 2000 });
  const slow = await both({ callers: CALLERS, count: 640, slow: SLOW_MS });
  const burst = await both({ callers: 100, count: 100 });
  const alone = await both({ callers: 1, count: 500 });
  const intake = await both({ callers: 0, count: 10_000 });
  const figures = {
    door_transactions_per_100: round(burst.figure("now", "transactionsPer100")),
    door_ratio: round(fast.ratio("perSecond")),
    door_ratio_slow_d1: round(slow.ratio("perSecond")),
    door_alone_ratio: round(alone.ratio("perSecond")),
    door_processor_ratio: round(fast.ratio("processorUs")),
    intake_ratio_before: round(intake.ratio("perSecond")),
    intake_processor_ratio_before: round(intake.ratio("processorUs")),
  };
  const perSecond = ({ figure }: Awaited<ReturnType<typeof both>>) => [
    `${figure("before", "perSecond").toFixed(0)}/s before`,
    `${figure("now", "perSecond").toFixed(0)}/s now`,
    `${figure("now", "transactionsPer100").toFixed(1)} D1 transactions per 100`,
  ];
  say(
    "100 commands at once",
    `${burst.figure("before", "transactionsPer100")} D1 transactions before`,
    `${figures.door_transactions_per_100} now`,
  );
  say(`${CALLERS} callers`, ...perSecond(fast), figures.door_ratio);
  say(`${CALLERS} callers, ${SLOW_MS} ms added to each D1 batch`, ...perSecond(slow), figures.door_ratio_slow_d1);
  say("one caller", ...perSecond(alone), figures.door_alone_ratio);
  say(
    "messages of a queue, one in ten a duplicate",
    `${intake.figure("before", "perSecond").toFixed(0)}/s before`,
    `${intake.figure("now", "perSecond").toFixed(0)}/s now`,
    figures.intake_ratio_before,
  );
  const processor = ({ figure }: Awaited<ReturnType<typeof both>>) =>
    (["before", "now"] as const).map((build) => `${figure(build, "processorUs").toFixed(0)} µs ${build}`);
  say(`processor time of a command, ${CALLERS} callers`, ...processor(fast), figures.door_processor_ratio);
  say("processor time of a message", ...processor(intake), figures.intake_processor_ratio_before);
  return figures;
}

/** Bundles a Worker of this folder with the engine of a checkout. */
export function bundle(file: string, tree: string): string {
  const bundler = createRequire(WRANGLER)("esbuild") as { buildSync(options: object): { outputFiles: { text: string }[] } };
  const built = bundler.buildSync({
    entryPoints: [join(import.meta.dirname, file)],
    alias: Object.fromEntries(Object.entries(sourceDoors()).map(([door, path]) => [door, path.replace(ROOT, tree)])),
    ...{ write: false, bundle: true, format: "esm", target: "es2024", platform: "browser", keepNames: true, logLevel: "error" },
    ...{ conditions: ["workerd", "worker", "browser"], external: ["node:*", "cloudflare:*"] },
    define: { "navigator.userAgent": '"Cloudflare-Workers"', "process.env.NODE_ENV": '"production"' },
  });
  return built.outputFiles[0]?.text ?? "";
}

/** The processes of the runtime, which are children of this process. */
export function children(): number[] {
  return readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
}
