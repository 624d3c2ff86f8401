import type { EngineEnv } from "../../contract/bindings.ts";
import { queueBinding } from "../../contract/bindings.ts";
import { laneIn } from "../../contract/queue.ts";
import { within } from "../../contract/within.ts";
import { hasVersion } from "../../contract/workflow-versions.ts";
import { atomically, query, type Row } from "../../store/d1/retry.ts";
import { HEALTH, OPEN_VERSIONS } from "../../store/health.ts";
import type { Counted } from "./folding.ts";
import { queueRates } from "./rates.ts";
import type { Sample } from "./sample.ts";
import type { GaugeName } from "./series.ts";

/** The part of a consumer that gauges need. */
export interface GaugedConsumer {
  readonly queue: { readonly name: string };
}

/** Number of minutes from which latency and the share of retries are computed. */
const RATE_MINUTES = 5;

/**
 * Reads all gauges of the engine: from the database by index in one round trip, from each queue's metrics, and from the counts of the last
 * minutes.
 */
export async function readGauges(env: EngineEnv, consumers: readonly GaugedConsumer[], counted: Counted): Promise<readonly Sample[]> {
  // The cells share the queues, which the keeper of the first cell reads.
  if (env.CELL !== undefined) return readDatabase(env);
  const [found, queues] = await Promise.all([readDatabase(env), Promise.all(consumers.map(({ queue }) => readQueue(env, queue.name)))]);
  return [...found, ...queues.flat(), ...queueRates(counted, RATE_MINUTES)];
}

async function readDatabase(env: Pick<EngineEnv, "DB">): Promise<Sample[]> {
  const names = Object.keys(HEALTH) as (keyof typeof HEALTH)[];
  const answers = await atomically(
    env.DB,
    names.map((name) => HEALTH[name]),
  );
  return names.flatMap((name, index) => (answers[index] ?? []).map((row) => sampleOf(name, row)));
}

/** Counts the open instances of each version that the deployed code lacks. */
export async function readVersions(env: Pick<EngineEnv, "DB">): Promise<Sample[]> {
  const found = await query(env.DB, OPEN_VERSIONS);
  const missing = found.filter(({ workflow, version }) => !hasVersion(String(workflow), Number(version)));
  return missing.map((row) => sampleOf("instances_without_version", row));
}

/**
 * Converts a row to a sample. The row has the value as `value`, the labels as other columns, and `gauge` if the statement returns several
 * gauges.
 */
function sampleOf(name: string, { gauge, value, ...labels }: Row): Sample {
  const said = Object.entries(labels).filter(([, label]) => label !== null);
  return { name: gauge ? String(gauge) : name, labels: Object.fromEntries(said) as Record<string, string>, value: Number(value) };
}

/**
 * Reads the samples of a queue. An unreported value becomes NaN. Therefore the graph has a gap and no alert changes, instead of a wrong
 * zero.
 */
async function readQueue(env: EngineEnv, queue: string): Promise<Sample[]> {
  if (laneIn(queue) !== undefined) return [];
  try {
    const { backlogCount, oldestMessageTimestamp } = await within(queueBinding(env, queue).metrics());
    const oldest = backlogCount > 0 && oldestMessageTimestamp ? Math.max(0, Date.now() - oldestMessageTimestamp.getTime()) / 1000 : 0;
    return [gauge("queue_depth", { queue }, backlogCount), gauge("queue_oldest_seconds", { queue }, oldest)];
  } catch {
    return [gauge("queue_depth", { queue }, Number.NaN), gauge("queue_oldest_seconds", { queue }, Number.NaN)];
  }
}

/** The sample of a cell that did not answer. */
export const unavailableCell = (cell: number): Sample => gauge("cells_unavailable", { cell: String(cell) }, 1);

/** Makes a sample of a gauge that the engine defines. */
export function gauge(name: GaugeName, labels: Readonly<Record<string, string>>, value: number): Sample {
  return { name, labels, value };
}
