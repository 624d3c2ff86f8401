import * as z from "zod";
import { iso, timestamp } from "../../contract/row.ts";
import { SPAN_MS } from "../../store/counts.ts";
import { ENGINE_STEPS } from "./runs.ts";
import { labelValues, type Tally } from "./tally.ts";
import { type GaugedConsumer, lastMinutes, numberOf, quantile, type Seen } from "./vitals.ts";

const seconds = (description: string) => z.number().nullable().meta({ description });

/** The health of a queue or lane. A value is null if the queue does not report it, or if nothing was counted recently. */
export const QueueHealth = z
  .object({
    queue: z.string(),
    depth: z.int().nullable().meta({
      description: "Waiting messages, without messages in a back-off; null for a lane, and for a queue that does not report them.",
    }),
    oldest_seconds: seconds("The age of the oldest waiting message."),
    lag_seconds: seconds("The 99th percentile of the time from a message's send to its first delivery."),
    in_per_minute: z.number().meta({ description: "Messages sent." }),
    out_per_minute: z.number().meta({ description: "Messages acknowledged." }),
    retry_share: z.number().min(0).max(1).nullable().meta({ description: "The share of deliveries that were retried." }),
    dead_letters_open: z.int().meta({ description: "Open dead letters, counted up to 10000." }),
    processing_p50_seconds: seconds("The median time of a batch from delivery to settlement."),
    processing_p99_seconds: seconds("The 99th percentile of the time of a batch from delivery to settlement."),
  })
  .meta({ id: "QueueHealth" });
type QueueHealth = z.infer<typeof QueueHealth>;

/** The source of each column in the health table of queues. */
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

/** The health table of every queue of the deployment, from the queue's gauges and from the counts of the last `minutes`. */
export function queueHealth(seen: Seen, consumers: readonly GaugedConsumer[], minutes: number): QueueHealth[] {
  const recent = lastMinutes(seen, minutes);
  // The present minute is not over, so only its elapsed part counts.
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
      oldest_seconds: gaugeOf(seen, "queue_oldest_seconds", queue),
      lag_seconds: of("queue_wait_seconds", 0.99),
      in_per_minute: total("queue_messages_sent_total") / elapsed,
      out_per_minute: total("queue_messages_acked_total") / elapsed,
      // A delivery may be counted as retried some minutes after it was counted as received.
      retry_share: received === 0 ? null : Math.min(1, total("queue_messages_retried_total") / received),
      dead_letters_open: letters.reduce((sum, { value }) => sum + value, 0),
      processing_p50_seconds: of("queue_processing_duration_seconds", 0.5),
      processing_p99_seconds: of("queue_processing_duration_seconds", 0.99),
    };
  });
}

function gaugeOf({ samples }: Seen, name: string, queue: string): number | null {
  const value = samples.find((sample) => sample.name === name && sample.labels.queue === queue)?.value;
  return value === undefined || Number.isNaN(value) ? null : value;
}

/** The number of deliveries of one message type in one minute, by outcome and by kind of sender. */
export const MinuteOfMessages = z
  .object({
    ...{ minute: timestamp, queue: z.string(), type: z.string(), outcomes: z.record(z.string(), z.int()) },
    sources: z.record(z.string(), z.int()),
  })
  .meta({ id: "MinuteOfMessages" });
type MinuteOfMessages = z.infer<typeof MinuteOfMessages>;

/**
 * The deliveries of the last `minutes` by minute, queue and type, newest first. With `source`, only deliveries of one kind of sender count.
 */
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
        return { minute: iso(minute), queue, type, outcomes: by(2), sources: by(3) };
      });
  });
}

/** The ended runs and the step attempts of one workflow in one period. */
export const PeriodOfWorkflow = z
  .object({
    at: timestamp.meta({ description: "The start of the minute or hour." }),
    workflow: z.string(),
    ended: z.record(z.string(), z.int()).meta({ description: "Ended runs by status." }),
    attempts: z.int().meta({ description: "Measured attempts at steps, without the engine's own steps." }),
    step_p50_seconds: seconds("The median duration of these attempts."),
    step_p99_seconds: seconds("The 99th percentile of their durations."),
  })
  .meta({ id: "PeriodOfWorkflow" });
type PeriodOfWorkflow = z.infer<typeof PeriodOfWorkflow>;

/** The counts of each workflow in each period, newest period first. */
export function workflowsByTime(periods: ReadonlyMap<number, Tally>): PeriodOfWorkflow[] {
  return [...periods].toSorted(([a], [b]) => b - a).flatMap(([at, tally]) => workflowsIn(at, tally));
}

function workflowsIn(at: number, { instances_ended_total = {}, step_duration_seconds = {} }: Tally): PeriodOfWorkflow[] {
  const ended = new Map<string, Record<string, number>>();
  for (const [labels, count] of Object.entries(instances_ended_total)) {
    const [workflow = "", status = ""] = labelValues(labels);
    const known = ended.get(workflow) ?? {};
    ended.set(workflow, { ...known, [status]: (known[status] ?? 0) + numberOf(count) });
  }
  const measured = new Map<string, number[]>();
  for (const [labels, counts] of Object.entries(step_duration_seconds)) {
    const [workflow = "", step] = labelValues(labels);
    if (step === ENGINE_STEPS || typeof counts === "number") continue;
    const known = measured.get(workflow);
    // Counts from a deployment with different buckets cannot be added to these counts.
    if (known === undefined || known.length === counts.length)
      measured.set(
        workflow,
        counts.map((count, place) => count + (known?.[place] ?? 0)),
      );
  }
  return [...new Set([...ended.keys(), ...measured.keys()])].sort().map((workflow) => {
    const counts = measured.get(workflow);
    const attempts = (counts ?? []).slice(0, -1).reduce((sum, one) => sum + one, 0);
    const of = (share: number) => (attempts === 0 ? null : quantile("step_duration_seconds", counts, share));
    return { at: iso(at), workflow, ended: ended.get(workflow) ?? {}, attempts, step_p50_seconds: of(0.5), step_p99_seconds: of(0.99) };
  });
}
