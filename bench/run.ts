import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Engine, startEngine } from "../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../packages/millrace/cli/local/ports.ts";
import { misused, numberOption, readOptions } from "../packages/millrace/cli/options.ts";
import { marginalUsd, OPERATIONS_PER_MESSAGE } from "../packages/millrace/src/observe/cost/formula.ts";
import { type AskWorker, median, repeat, round, say } from "./figures.ts";
import { measureLanes } from "./lanes/measure.ts";
import { coordinationFigures } from "./limits.ts";
import { processorFigures } from "./processor.ts";
import { cellFigures } from "./scale/cells.ts";
import { doorFigures } from "./scale/door.ts";
import { tenantFigures } from "./scale/tenants.ts";

// Run with `npm run bench`. Measures the cost of the guarantees, as ratios within one run on one machine. `-- --json` prints the results as
// one JSON object at the end.

const USAGE =
  "Usage: npm run bench -- [lanes|scale] [--rounds 5] [--json]. --rounds sets the repetitions of each comparison; --json prints one object " +
  "last. lanes: compares lanes, limits and counters instead of the workflows. scale: compares accepted and consumed commands with an earlier engine.";
const { values, positionals } = readOptions(USAGE, {
  allowPositionals: true,
  options: { json: { type: "boolean", default: false }, rounds: { type: "string", default: "5" } },
});
const [what = "chains", ...others] = positionals;
if (others.length > 0 || !["chains", "lanes", "scale"].includes(what)) misused(`There is no comparison "${positionals.join(" ")}".`, USAGE);
const rounds = numberOption(USAGE, "rounds", values.rounds, { least: 1 });
const ROOT = join(import.meta.dirname, "..");

const MESSAGES = 10_000;
/**
 * Number of messages for the usual consumer, which handles messages one by one. The usual consumer needs about as
 * long for this number as the engine needs for `MESSAGES`.
 */
const SINGLY = 1000;
const FACTS = 5000;
const RUNS = 400;
const PACED = 30;
const RECORDS = 4000;
/** Number of Worker requests for one instance: the command, the queue batch and the workflow's invocation. */
const REQUESTS = 3;

/** Fields of an instance's reported cost that the benchmark also measures independently. */
const SHOWN = ["steps", "rows_written", "rows_read", "queue_operations", "requests", "object_requests"] as const;

const folder = join(ROOT, ".millrace", "bench");
mkdirSync(folder, { recursive: true });
const secrets = join(folder, "secrets");
writeFileSync(secrets, "MILLRACE_KEY=bench\n");

const result =
  what === "lanes"
    ? { ...(await on("lanes", (ask) => measureLanes(ask, rounds))), ...(await on(".", (ask) => coordinationFigures(ask, rounds))) }
    : what === "scale"
      ? { ...(await doorFigures(folder, rounds)), ...(await tenantFigures()), ...(await cellFigures(rounds)) }
      : // Each comparison gets a new runtime, because a runtime keeps three files open for every instance that it has run.
        { ...(await on(".", measure)), ...(await on(".", measureInline)) };
if (values.json) console.log(JSON.stringify(result));

/** Runs the measurements on the Worker in a folder. */
async function on<T>(worker: string, measured: (ask: AskWorker, engine: Engine) => Promise<T>): Promise<T> {
  const config = join(ROOT, "bench", worker, "wrangler.jsonc");
  const engine = await startEngine({ folder, port: await freePort(), secrets, config, fresh: true });
  try {
    return await measured(askOf(engine), engine);
  } finally {
    await engine.stop();
  }
}

function askOf({ url, token }: Engine): AskWorker {
  return async <T>(path: string): Promise<T> => {
    const answer = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
    return (await answer.json()) as T;
  };
}

async function measure(ask: AskWorker, engine: Engine) {
  await ask(`/runs/raw?count=100`);
  await ask(`/runs/guarded?count=100`);

  // The first round of each side warms up the runtime and is not counted.
  const intake = async () => ({
    plain: await ask<number>(`/intake/plain?count=${SINGLY}`),
    engine: await ask<number>(`/intake/engine?count=${MESSAGES}`),
  });
  await intake();
  const taken = await repeat(rounds, intake);
  const intake_ratio = round(median(taken.map(({ plain, engine }) => engine / plain)));
  say(
    "ingestion of messages, one in ten a duplicate",
    `plain ${median(taken.map(({ plain }) => plain)).toFixed(0)}/s`,
    `engine ${median(taken.map(({ engine }) => engine)).toFixed(0)}/s`,
    intake_ratio,
  );

  const throughput = await repeat(rounds, async () => ({
    raw: await ask<number>(`/runs/raw?count=${RUNS}`),
    guarded: await ask<number>(`/runs/guarded?count=${RUNS}`),
  }));
  const guard_ratio = round(median(throughput.map(({ raw, guarded }) => guarded / raw)));
  say(
    `${RUNS} instances of three steps`,
    `raw ${median(throughput.map((one) => one.raw)).toFixed(0)}/s`,
    `guarded ${median(throughput.map((one) => one.guarded)).toFixed(0)}/s`,
    guard_ratio,
  );

  const latency = await repeat(rounds, async () => ({
    raw: await ask<number[]>(`/latency/raw?count=${PACED}`),
    engine: await ask<number[]>(`/latency/engine?count=${PACED}`),
  }));
  const rawP50 = median(latency.flatMap((one) => one.raw));
  const engineP50 = median(latency.flatMap((one) => one.engine));
  const latency_ratio = round(engineP50 / rawP50);
  say(
    "latency from the request to the end of three steps, ten requests per second, p50",
    `Workflow created directly ${rawP50} ms`,
    `accepted and queued ${engineP50} ms`,
    latency_ratio,
  );

  const platform = await oneAlone(ask, "engine");

  // The first round warms up the runtime and is not counted.
  for (const shards of [1, 8]) await ask(`/recorder?count=${RECORDS}&shards=${shards}`);
  const recorded = await repeat(rounds, async () => ({
    one: await ask<number>(`/recorder?count=${RECORDS}&shards=1`),
    eight: await ask<number>(`/recorder?count=${RECORDS}&shards=8`),
  }));
  const recorder_per_s = {
    1: Math.round(median(recorded.map(({ one }) => one))),
    8: Math.round(median(recorded.map(({ eight }) => eight))),
  };
  say(
    `${RECORDS} outcomes, with 500 steps waiting for the recorder`,
    `one recorder ${recorder_per_s[1]}/s`,
    `eight ${recorder_per_s[8]}/s`,
  );

  const processor = await processorFigures(ask, engine.runtime, rounds);

  // This measurement runs last, because the alarms of ledgers would disturb other measurements. The first round of each side warms up the
  // runtime and is not counted.
  for (const side of ["plain", "engine", "confirmed"]) await ask(`/projection/${side}?count=${FACTS}`);
  const projected = await repeat(rounds, async () => ({
    plain: await ask<number>(`/projection/plain?count=${FACTS}`),
    engine: await ask<number>(`/projection/engine?count=${FACTS}`),
    confirmed: await ask<number>(`/projection/confirmed?count=${FACTS}`),
  }));
  const projection_ratio = round(median(projected.map(({ plain, engine }) => engine / plain)));
  const projection_confirmed_ratio = round(median(projected.map(({ plain, confirmed }) => confirmed / plain)));
  say(
    `${FACTS} facts into the projection, in batches of 100`,
    `one insert per message ${median(projected.map((one) => one.plain)).toFixed(0)}/s`,
    `consumer ${median(projected.map((one) => one.engine)).toFixed(0)}/s`,
    projection_ratio,
    `consumer that confirms every batch to ten ledgers ${median(projected.map((one) => one.confirmed)).toFixed(0)}/s`,
    projection_confirmed_ratio,
  );

  return {
    intake_ratio,
    projection_ratio,
    projection_confirmed_ratio,
    guard_ratio,
    latency_ratio,
    recorder_per_s,
    ...processor,
    ...platform,
  };
}

/** Three inline steps, compared with three steps of raw Workflows. */
async function measureInline(ask: AskWorker) {
  await ask(`/runs/raw?count=100`);
  await ask(`/runs/inline?count=100`);
  const throughput = await repeat(rounds, async () => ({
    raw: await ask<number>(`/runs/raw?count=${RUNS}`),
    inline: await ask<number>(`/runs/inline?count=${RUNS}`),
  }));
  const guard_ratio_lean = round(median(throughput.map(({ raw, inline }) => inline / raw)));
  say(
    `${RUNS} instances of three inline steps`,
    `raw ${median(throughput.map((one) => one.raw)).toFixed(0)}/s`,
    `inline ${median(throughput.map((one) => one.inline)).toFixed(0)}/s`,
    guard_ratio_lean,
  );
  const latency = await repeat(rounds, async () => ({
    raw: await ask<number[]>(`/latency/raw?count=${PACED}`),
    inline: await ask<number[]>(`/latency/inline?count=${PACED}`),
  }));
  const rawP50 = median(latency.flatMap((one) => one.raw));
  const inlineP50 = median(latency.flatMap((one) => one.inline));
  const latency_ratio_lean = round(inlineP50 / rawP50);
  say(
    "latency from the request to the end of three inline steps, p50",
    `Workflow created directly ${rawP50} ms`,
    `accepted and queued ${inlineP50} ms`,
    latency_ratio_lean,
  );
  const alone = await oneAlone(ask, "inline");
  return {
    guard_ratio_lean,
    latency_ratio_lean,
    ...Object.fromEntries(Object.entries(alone).map(([name, figure]) => [`${name}_lean`, figure])),
  };
}

/**
 * Measures the cost of one instance: the counts of D1 and the runtime, and the cost that the engine reports. `which` selects the workflow.
 */
async function oneAlone(ask: AskWorker, which: "engine" | "inline") {
  await ask("/asked");
  await ask(`/latency/${which}?count=${PACED}`);
  const asked = await ask<Record<"roundTrips" | "rows_written" | "rows_read" | "object_requests", number>>("/asked");
  const round_trips_per_run = round(asked.roundTrips / PACED);
  const rows_written_per_run = round(asked.rows_written / PACED);
  const { stepsOnPlatform, ...shown } = await ask<Record<(typeof SHOWN)[number] | "stepsOnPlatform", number>>(`/shown?count=${PACED}`);
  const { roundTrips: _, ...byD1 } = asked;
  const counted = { ...byD1, steps: stepsOnPlatform, queue_operations: OPERATIONS_PER_MESSAGE * PACED, requests: REQUESTS * PACED };
  const usd_per_million_runs = round((marginalUsd(counted) / PACED) * 1e6);
  const cost_shown_vs_counted = Math.round((marginalUsd(shown) / marginalUsd(counted)) * 10_000) / 10_000;
  say(
    `one run alone${which === "inline" ? ", inline" : ""}, acceptance to end`,
    `${round_trips_per_run} D1 round trips`,
    `${rows_written_per_run} rows written`,
    `$${usd_per_million_runs} per million`,
  );
  say(
    `reported cost of ${PACED} runs, as a share of the counts of D1 and the runtime`,
    ...SHOWN.map((part) => `${part} ${shown[part]} of ${counted[part]}`),
    cost_shown_vs_counted,
  );
  return { round_trips_per_run, rows_written_per_run, usd_per_million_runs, cost_shown_vs_counted };
}
