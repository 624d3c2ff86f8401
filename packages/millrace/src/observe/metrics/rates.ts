import { SPAN_MS } from "../../store/counts.ts";
import { type Counted, minuteOf } from "./folding.ts";
import type { Sample } from "./sample.ts";
import { type GaugeName, HISTOGRAMS, type HistogramName } from "./series.ts";
import { labelValues, sumOf, type Tally } from "./tally.ts";

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
export function queueRates(counted: Counted, minutes: number): Sample[] {
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
