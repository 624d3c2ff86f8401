/** Bounds of durations in seconds: from reading a row to a call of several minutes. */
const DURATION_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300] as const;
/** Bounds of a message's wait in seconds: up to hours for a queue with errors. */
const WAIT_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400] as const;
/** Bounds of messages per batch: a queue delivers at most 100. */
const BATCH_MESSAGES = [1, 2, 5, 10, 25, 50, 100] as const;

/** The description of a counter. */
export interface Counter {
  readonly help: string;
  readonly labels: readonly string[];
}

interface Histogram extends Counter {
  /** Upper bounds, ascending, in the unit at the end of the name. */
  readonly buckets: readonly number[];
}

/** All counters, for `count(env, name, labels)`. On `/metrics` each name has the prefix `millrace_`. */
export const COUNTERS = {
  queue_messages_sent_total: { help: "Messages given to a queue, each send of a copy counted.", labels: ["queue"] },
  queue_messages_received_total: { help: "Messages that a queue delivered, each delivery counted.", labels: ["queue"] },
  queue_messages_acked_total: { help: "Deliveries that were acknowledged.", labels: ["queue"] },
  queue_messages_retried_total: { help: "Deliveries that were sent back, to be delivered again.", labels: ["queue"] },
  queue_dlq_total: { help: "Messages that became dead letters.", labels: ["queue", "reason"] },
  dead_letter_repairs_total: {
    help: "Automatic repairs of dead letters: sent, refused as an operator's correction would be, or failed.",
    labels: ["queue", "repair", "outcome"],
  },
  messages_total: { help: "Deliveries by the type of their message and what became of it.", labels: ["queue", "type", "outcome"] },
  instances_ended_total: {
    help: "Runs that ended, by status, and by the code of the error for those that failed.",
    labels: ["workflow", "status", "code"],
  },
  step_attempts_total: { help: "Attempts at steps that the platform had no result of.", labels: ["workflow", "step", "outcome"] },
  spans_lost_total: { help: "Spans that the collector of traces did not take, or that were too many to hold.", labels: [] },
} as const satisfies Record<string, Counter>;

/** All histograms, for `observe(env, name, labels, value)`. */
export const HISTOGRAMS = {
  queue_processing_duration_seconds: {
    help: "Time from a batch's delivery until each of its messages was settled.",
    labels: ["queue"],
    buckets: DURATION_SECONDS,
  },
  queue_batch_size: { help: "Messages in one delivered batch.", labels: ["queue"], buckets: BATCH_MESSAGES },
  queue_wait_seconds: {
    help: "Time from a message's sending until its first delivery, both by the platform's clock.",
    labels: ["queue"],
    buckets: WAIT_SECONDS,
  },
  step_duration_seconds: { help: "Time that one attempt at a step took.", labels: ["workflow", "step"], buckets: DURATION_SECONDS },
} as const satisfies Record<string, Histogram>;

/** All gauges, read by `readGauges`. */
export const GAUGES = {
  queue_depth: { help: "Messages that wait in a queue, without those in a back-off or a delay.", labels: ["queue"] },
  queue_oldest_seconds: { help: "Age of the oldest message that waits in a queue.", labels: ["queue"] },
  queue_processing_p99_seconds: { help: "Time within which 99 of 100 batches of the last five minutes were settled.", labels: ["queue"] },
  queue_lag_seconds: { help: "Time within which 99 of 100 messages of the last five minutes had their first delivery.", labels: ["queue"] },
  queue_retry_ratio: { help: "Share of the last five minutes' deliveries that were sent back, from 20 deliveries on.", labels: ["queue"] },
  dead_letters_open: { help: "Dead letters that nobody has settled, up to 10000.", labels: ["queue", "reason"] },
  effects_in_doubt: { help: "Effects of which only a person can say whether they happened, up to 10000.", labels: [] },
  effects_in_doubt_oldest_seconds: { help: "Age of the oldest effect in doubt.", labels: [] },
  instances_errored_open: { help: "Instances that failed and that nobody has mended or closed, up to 10000.", labels: ["workflow"] },
  instances_overdue: { help: "Instances past the time by which they were to have ended, up to 10000.", labels: ["workflow"] },
  approvals_waiting: { help: "Questions that wait for a person's answer, of the first 1000 pending.", labels: ["workflow"] },
  approvals_pressing: { help: "Those with less than an hour, and less than half of their time, left.", labels: ["workflow"] },
  approvals_oldest_seconds: { help: "How long the oldest of these questions has waited.", labels: [] },
  instances_unchecked: { help: "Instances that the keeper should have looked at a minute ago or longer, up to 10000.", labels: ["stage"] },
  outbox_unconfirmed: { help: "Messages that no consumer has confirmed yet, up to 10000.", labels: [] },
  outbox_overdue_seconds: { help: "How long the most overdue of them is overdue for its next send.", labels: [] },
  outbox_refused: { help: "Messages that their queue has refused at the last send, up to 10000.", labels: [] },
  actions_overdue: { help: "Operators' actions that should have been carried out a minute ago or longer, up to 10000.", labels: [] },
  schedules_overdue_seconds: { help: "How long the most overdue schedule is overdue.", labels: [] },
  lanes_blocked: { help: "Lanes that a person has to look at: held, paused or unknown.", labels: ["lane", "state"] },
  lanes_backlog: { help: "Messages in lanes that stand still or have a backlog.", labels: ["lane"] },
  divergences: { help: "Disagreements that the slow walk found and that are not mended, up to 10000.", labels: ["kind"] },
  keeper_age_seconds: { help: "Time since the keeper read these gauges: some ten seconds on a healthy deployment.", labels: [] },
} as const satisfies Record<string, Counter>;

export type GaugeName = keyof typeof GAUGES;
export type CounterName = keyof typeof COUNTERS;
export type HistogramName = keyof typeof HISTOGRAMS;

/** The labels of a series: exactly these. */
export type LabelsOf<Name extends CounterName | HistogramName> = Readonly<
  Record<((typeof COUNTERS)[Name & CounterName] | (typeof HISTOGRAMS)[Name & HistogramName])["labels"][number], string>
>;

/** The definition of a counter or histogram; undefined for a name that the deployed code does not have. */
export function definitionOf(name: string): Counter | Histogram | undefined {
  return Object.hasOwn(COUNTERS, name)
    ? COUNTERS[name as CounterName]
    : Object.hasOwn(HISTOGRAMS, name)
      ? HISTOGRAMS[name as HistogramName]
      : undefined;
}
