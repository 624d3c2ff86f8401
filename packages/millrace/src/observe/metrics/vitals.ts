import { type EngineEnv, queueBinding } from "../../contract/bindings.ts";
import { inCell } from "../../contract/cells.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { hasVersion } from "../../contract/params.ts";
import { laneIn } from "../../contract/queue.ts";
import { within } from "../../contract/within.ts";
import { SPAN_MS } from "../../store/counts.ts";
import { atomically, query, type Row } from "../../store/d1/retry.ts";
import { HEALTH, OPEN_VERSIONS } from "../../store/health.ts";
import { type Counted, foldTallies, minuteOf, readCounted } from "./folding.ts";
import { assertSamples, type GaugeName, HISTOGRAMS, type HistogramName, type Sample } from "./series.ts";
import { labelValues, sumOf, type Tally } from "./tally.ts";

/** How long a reading of the gauges is reused, in milliseconds. Because of the reuse, frequent scrapes do not add database reads. */
const FRESH_MS = 8000;
/** Time limit of a reading of the gauges, in milliseconds, so that a hanging reading does not block the next reading. */
const READ_WITHIN_MS = 30_000;
/** The interval at which tallies are merged and the versions of open instances are counted. */
const FOLD_MS = SPAN_MS.minute;

/** The counts and gauges of a deployment at the keeper's last reading. */
export interface Seen extends Counted {
  readonly samples: readonly Sample[];
}

/**
 * A function that returns an app's own gauges. The function should read quickly and by index, or compute from the engine's gauges in
 * `engine`.
 */
export type AppGauges = (env: Cloudflare.Env, engine: readonly Sample[]) => Promise<readonly Sample[]> | readonly Sample[];

/** The keeper's counts and gauges. The keeper reads both once per round, and reuses both for requests until the next round. */
export class Vitals {
  #seen: Seen | undefined;
  #reading: Promise<Seen> | undefined;
  #foldedAt = 0;
  #versions: readonly Sample[] = [];
  #lastOfApp: readonly Sample[] = [];

  constructor(
    readonly env: EngineEnv,
    readonly consumers: readonly GaugedConsumer[],
    readonly ofApp: AppGauges | undefined,
  ) {}

  /** The last reading of the gauges, of any age; undefined before the first reading. */
  get last(): Seen | undefined {
    return this.#seen;
  }

  /** The last reading of the gauges, or a new reading if the last reading is too old. */
  seen(): Promise<Seen> {
    const { at } = this.#seen ?? { at: 0 };
    return this.#seen && Math.abs(Date.now() - at) < FRESH_MS ? Promise.resolve(this.#seen) : this.read();
  }

  /** Reads all counters and gauges, and merges tallies once a minute. Only one reading is in progress at a time. */
  read(): Promise<Seen> {
    this.#reading ??= within(this.#read(), READ_WITHIN_MS).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Reads all counters and gauges now, and merges all tallies. */
  async readAtOnce(): Promise<Seen> {
    await this.#reading?.catch(() => undefined);
    this.#foldedAt = 0;
    return this.read();
  }

  async #read(): Promise<Seen> {
    const at = Date.now();
    if (Math.abs(at - this.#foldedAt) >= FOLD_MS) {
      this.#foldedAt = at;
      // The first cell has the counts of all cells.
      if (this.env.CELL === undefined) await foldTallies(this.env);
      this.#versions = await readVersions(this.env);
    }
    const counted = await readCounted(inCell(this.env), at);
    const own = [...(await readGauges(this.env, this.consumers, counted)), ...this.#versions];
    this.#seen = { ...counted, samples: [...own, ...(await this.#ofApp(own))] };
    return this.#seen;
  }

  /** Reads the app's gauges. A gauge that throws becomes NaN and does not affect other gauges. */
  async #ofApp(own: readonly Sample[]): Promise<readonly Sample[]> {
    try {
      const said = (await within(Promise.resolve(this.ofApp?.(this.env as unknown as Cloudflare.Env, own)))) ?? [];
      assertSamples(said);
      this.#lastOfApp = said;
      return said;
    } catch (error) {
      logLine("warn", { log: "metrics", part: "gauges", error: messageOf(error) });
      return this.#lastOfApp.map((sample) => ({ ...sample, value: Number.NaN }));
    }
  }
}

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
async function readVersions(env: Pick<EngineEnv, "DB">): Promise<Sample[]> {
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

/** Minimum number of deliveries from which a share of retries is computed, because one retry of two deliveries is no trend. */
const MIN_DELIVERIES = 20;

/** The gauges that are 99th percentiles of a queue's histograms. */
const P99S = {
  queue_processing_p99_seconds: "queue_processing_duration_seconds",
  queue_lag_seconds: "queue_wait_seconds",
} as const satisfies Partial<Record<GaugeName, HistogramName>>;

/**
 * For each queue, from the counts of the last minutes: the p99 of processing and of messages' wait, and the share of retried deliveries.
 */
function queueRates(counted: Counted, minutes: number): Sample[] {
  const recent = lastMinutes(counted, minutes);
  const p99s = Object.entries(P99S).flatMap(([name, histogram]) =>
    Object.entries(recent[histogram] ?? {}).map(([labels, measured]): Sample => {
      const [queue = ""] = labelValues(labels);
      return { name, labels: { queue }, value: quantile(histogram, measured, 0.99) };
    }),
  );
  const shares = Object.entries(recent.queue_messages_received_total ?? {}).flatMap(([labels, received]): Sample[] => {
    const [queue = ""] = labelValues(labels);
    if (numberOf(received) < MIN_DELIVERIES) return [];
    return [
      { name: "queue_retry_ratio", labels: { queue }, value: numberOf(recent.queue_messages_retried_total?.[labels]) / numberOf(received) },
    ];
  });
  return [...p99s, ...shares];
}

/** The sum of the counts of the last whole minutes and of the present minute. */
export function lastMinutes({ minutes, at }: Counted, last: number): Tally {
  const from = minuteOf(at) - last * SPAN_MS.minute;
  return sumOf([...minutes].filter(([minute]) => minute > from).map(([, tally]) => tally));
}

/** The quantile of a histogram, interpolated linearly within a bucket as Prometheus does. The result is 0 without measurements. */
export function quantile(name: HistogramName, measured: number | number[] | undefined, share: number): number {
  if (typeof measured !== "object") return 0;
  const { buckets } = HISTOGRAMS[name];
  const counts = measured.slice(0, -1);
  const rank = share * counts.reduce((sum, one) => sum + one, 0);
  if (rank === 0) return 0;
  let below = 0;
  for (const [index, bound] of buckets.entries()) {
    const here = counts[index] ?? 0;
    if (here > 0 && below + here >= rank) {
      const from = index === 0 ? 0 : (buckets[index - 1] ?? 0);
      return from + (bound - from) * ((rank - below) / here);
    }
    below += here;
  }
  return buckets.at(-1) ?? 0;
}

/** The value of a counter. The value is 0 for a counter that was never increased. */
export function numberOf(value: number | number[] | undefined): number {
  return typeof value === "number" ? value : 0;
}
