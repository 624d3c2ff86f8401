import { SPAN_MS } from "../../store/counts.ts";
import type { GaugedConsumer } from "./gauges.ts";
import { lastMinutes, numberOf, quantile } from "./rates.ts";
import { labelValues } from "./tally.ts";
import type { Seen } from "./vitals.ts";

/** The health of a queue or lane. Null for values that are not reported or not counted recently. */
export interface QueueHealth {
  readonly queue: string;
  /** Waiting messages. */
  readonly depth: number | null;
  /** Age of the oldest waiting message, in seconds. */
  readonly oldestSeconds: number | null;
  /** Time within which 99 of 100 messages had their first delivery, in seconds. */
  readonly lagSeconds: number | null;
  /** Messages per minute that were sent, and that were acknowledged. */
  readonly inPerMinute: number;
  readonly outPerMinute: number;
  /** Share of deliveries that were retried, 0 to 1. */
  readonly retryShare: number | null;
  /** Open dead letters, up to 10,000. */
  readonly deadLettersOpen: number;
  /** Time of a batch from its delivery to its settlement, in seconds. */
  readonly processingP50Seconds: number | null;
  readonly processingP99Seconds: number | null;
}

/** The source of each number of the health table. */
export const QUEUE_SOURCES = {
  depth: "queue.metrics()",
  oldest_seconds: "queue.metrics()",
  lag_seconds: "counts",
  in_per_minute: "counts",
  out_per_minute: "counts",
  retry_share: "counts",
  dead_letters_open: "d1",
  processing_p50_seconds: "counts",
  processing_p99_seconds: "counts",
} as const;

/** The health table: every queue of the deployment, from the counts of its last `minutes` and its gauges. */
export function queueHealth(seen: Seen, consumers: readonly GaugedConsumer[], minutes: number): QueueHealth[] {
  const recent = lastMinutes(seen, minutes);
  // The last of the minutes is not over.
  const elapsed = minutes - 1 + Math.max(1, seen.at % SPAN_MS.minute) / SPAN_MS.minute;
  return consumers.map(({ queue: { name: queue } }): QueueHealth => {
    const labels = JSON.stringify([queue]);
    const total = (counter: string) => numberOf(recent[counter]?.[labels]);
    const of = (name: "queue_processing_duration_seconds" | "queue_wait_seconds", share: number) => {
      const measured = recent[name]?.[labels];
      return measured === undefined ? null : quantile(name, measured, share);
    };
    const received = total("queue_messages_received_total");
    const letters = seen.samples.filter(({ name, labels: of }) => name === "dead_letters_open" && of.queue === queue);
    return {
      queue,
      depth: gaugeOf(seen, "queue_depth", queue),
      oldestSeconds: gaugeOf(seen, "queue_oldest_seconds", queue),
      lagSeconds: of("queue_wait_seconds", 0.99),
      inPerMinute: total("queue_messages_sent_total") / elapsed,
      outPerMinute: total("queue_messages_acked_total") / elapsed,
      retryShare: received === 0 ? null : total("queue_messages_retried_total") / received,
      deadLettersOpen: letters.reduce((sum, { value }) => sum + value, 0),
      processingP50Seconds: of("queue_processing_duration_seconds", 0.5),
      processingP99Seconds: of("queue_processing_duration_seconds", 0.99),
    };
  });
}

function gaugeOf({ samples }: Seen, name: string, queue: string): number | null {
  const value = samples.find((sample) => sample.name === name && sample.labels.queue === queue)?.value;
  return value === undefined || Number.isNaN(value) ? null : value;
}

/** Deliveries of one type in one minute, by outcome. */
export interface MinuteOfMessages {
  readonly minute: number;
  readonly queue: string;
  readonly type: string;
  readonly outcomes: Readonly<Record<string, number>>;
  /** The number of these deliveries by kind of sender. */
  readonly sources: Readonly<Record<string, number>>;
}

/** The deliveries of the last `minutes` by minute, queue and type, newest first; of one kind of sender with `source`. */
export function messagesByMinute(seen: Seen, minutes: number, source?: string): MinuteOfMessages[] {
  const from = seen.at - minutes * SPAN_MS.minute;
  const newestFirst = [...seen.minutes].filter(([minute]) => minute > from).toSorted(([a], [b]) => b - a);
  return newestFirst.flatMap(([minute, tally]) => {
    const every = Object.entries(tally.messages_total ?? {}).map(([labels, value]) => ({
      labels: labelValues(labels),
      value: numberOf(value),
    }));
    const all = source === undefined ? every : every.filter(({ labels }) => labels[3] === source);
    const byType = Map.groupBy(all, ({ labels: [queue, type] }) => JSON.stringify([queue, type]));
    return [...byType]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, those]): MinuteOfMessages => {
        const [queue = "", type = ""] = labelValues(key);
        const by = (place: number) => {
          const counts: Record<string, number> = {};
          for (const {
            labels: { [place]: label = "other" },
            value,
          } of those)
            counts[label] = (counts[label] ?? 0) + value;
          return counts;
        };
        return { minute, queue, type, outcomes: by(2), sources: by(3) };
      });
  });
}
