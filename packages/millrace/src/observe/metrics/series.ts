/** Histogram bounds of durations in seconds, from a read of a row to a call of several minutes. */
const DURATION_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300] as const;
/** Histogram bounds of a message's wait in seconds, up to hours for a queue with errors. */
const WAIT_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400] as const;
/** Histogram bounds of messages per batch. A queue delivers at most 100 messages. */
const BATCH_MESSAGES = [1, 2, 5, 10, 25, 50, 100] as const;

/** The description of a counter. */
export interface Counter {
  readonly help: string;
  readonly labels: readonly string[];
}

interface Histogram extends Counter {
  /** Upper bounds of the buckets, ascending, in the unit at the end of the histogram's name. */
  readonly buckets: readonly number[];
}

/** All counters, for `count(env, name, labels)`. On `/metrics` each name has the prefix `millrace_`. */
export const COUNTERS = {
  queue_messages_sent_total: { help: "Messages sent to a queue, repeated sends included.", labels: ["queue"] },
  queue_messages_received_total: { help: "Deliveries of a queue, repeated ones included.", labels: ["queue"] },
  queue_messages_acked_total: { help: "Deliveries that were acknowledged.", labels: ["queue"] },
  queue_messages_retried_total: { help: "Deliveries that were retried.", labels: ["queue"] },
  queue_dlq_total: { help: "Messages that became dead letters.", labels: ["queue", "reason"] },
  dead_letter_repairs_total: {
    help: "Automatic repairs of dead letters by outcome: sent, refused or failed.",
    labels: ["queue", "repair", "outcome"],
  },
  inbound_webhooks_total: {
    help: "Webhooks of other services by outcome: accepted, repeated, ignored, failed or refused.",
    labels: ["source", "outcome"],
  },
  messages_total: { help: "Deliveries by message type, outcome and kind of sender.", labels: ["queue", "type", "outcome", "source"] },
  instances_ended_total: {
    help: "Ended runs by status and error code.",
    labels: ["workflow", "status", "code"],
  },
  step_attempts_total: { help: "Attempts at steps without a result from an earlier replay.", labels: ["workflow", "step", "outcome"] },
  spans_lost_total: { help: "Spans that the collector refused, or that exceeded the buffer.", labels: [] },
} as const satisfies Record<string, Counter>;

/** All histograms, for `observe(env, name, labels, value)`. */
export const HISTOGRAMS = {
  queue_processing_duration_seconds: {
    help: "Time from a batch's delivery to the settlement of all its messages.",
    labels: ["queue"],
    buckets: DURATION_SECONDS,
  },
  queue_batch_size: { help: "Messages in one delivered batch.", labels: ["queue"], buckets: BATCH_MESSAGES },
  queue_wait_seconds: {
    help: "Time from a message's send to its first delivery, by the platform's clock.",
    labels: ["queue"],
    buckets: WAIT_SECONDS,
  },
  step_duration_seconds: { help: "Duration of an attempt at a step.", labels: ["workflow", "step"], buckets: DURATION_SECONDS },
} as const satisfies Record<string, Histogram>;

/** All gauges, read by `readGauges`. */
export const GAUGES = {
  queue_depth: { help: "Messages that wait in a queue, without delayed ones.", labels: ["queue"] },
  queue_oldest_seconds: { help: "Age of the oldest waiting message of a queue.", labels: ["queue"] },
  queue_processing_p99_seconds: { help: "Time within which 99 of 100 batches of the last five minutes were settled.", labels: ["queue"] },
  queue_lag_seconds: { help: "Time within which 99 of 100 messages of the last five minutes had their first delivery.", labels: ["queue"] },
  queue_retry_ratio: { help: "Share of the last five minutes' deliveries that were retried, from 20 deliveries on.", labels: ["queue"] },
  dead_letters_open: { help: "Open dead letters, up to 10000.", labels: ["queue", "reason"] },
  effects_in_doubt: { help: "Effects with an unknown outcome, up to 10000.", labels: [] },
  effects_in_doubt_oldest_seconds: { help: "Age of the oldest effect with an unknown outcome.", labels: [] },
  instances_errored_open: { help: "Errored instances that are neither fixed nor closed, up to 10000.", labels: ["workflow"] },
  instances_overdue: { help: "Instances past their deadlines, up to 10000.", labels: ["workflow"] },
  instances_without_version: { help: "Open instances of undeployed versions, up to 10000.", labels: ["workflow", "version"] },
  approvals_waiting: { help: "Unanswered questions, of the first 1000 pending.", labels: ["workflow"] },
  approvals_pressing: { help: "Unanswered questions with less than an hour and less than half of their time left.", labels: ["workflow"] },
  approvals_oldest_seconds: { help: "Age of the oldest unanswered question.", labels: [] },
  instances_unchecked: { help: "Instances with a keeper check that is overdue by a minute or more, up to 10000.", labels: ["stage"] },
  outbox_unconfirmed: { help: "Messages that no consumer has confirmed yet, up to 10000.", labels: [] },
  outbox_overdue_seconds: { help: "How long the next send of an unconfirmed message is overdue, at most.", labels: [] },
  outbox_refused: { help: "Messages with a latest send that their queue refused; the count stops at 10000.", labels: [] },
  actions_overdue: { help: "Operators' actions that are overdue by a minute or more, up to 10000.", labels: [] },
  schedules_overdue_seconds: { help: "How long the most overdue schedule is overdue.", labels: [] },
  lanes_blocked: { help: "Lanes that need an operator: held, paused or unknown.", labels: ["lane", "state"] },
  lanes_backlog: { help: "Messages in lanes that are blocked or have a backlog.", labels: ["lane"] },
  divergences: { help: "Open differences found by the slow scan, up to 10000.", labels: ["kind"] },
  cells_unavailable: { help: "1 for a cell that did not answer. Other gauges then lack the part of this cell.", labels: ["cell"] },
  keeper_age_seconds: { help: "Time since the keeper read these gauges: about 10 s on a healthy deployment.", labels: [] },
} as const satisfies Record<string, Counter>;

export type GaugeName = keyof typeof GAUGES;
export type CounterName = keyof typeof COUNTERS;
export type HistogramName = keyof typeof HISTOGRAMS;

/** The labels of a counter's or histogram's series. The object must contain exactly these labels. */
export type LabelsOf<Name extends CounterName | HistogramName> = Readonly<
  Record<((typeof COUNTERS)[Name & CounterName] | (typeof HISTOGRAMS)[Name & HistogramName])["labels"][number], string>
>;

/** The definition of a counter or histogram; undefined for a name that the deployed code does not define. */
export function definitionOf(name: string): Counter | Histogram | undefined {
  return Object.hasOwn(COUNTERS, name)
    ? COUNTERS[name as CounterName]
    : Object.hasOwn(HISTOGRAMS, name)
      ? HISTOGRAMS[name as HistogramName]
      : undefined;
}

/** The current reading of one gauge. */
export interface Sample {
  /** The gauge's name without the prefix, such as `queue_depth`. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The value of the gauge; NaN if the gauge could not be read. */
  readonly value: number;
}

/** Throws if the app's function for gauges returned a value in an invalid format. */
export function assertSamples(said: unknown): asserts said is readonly Sample[] {
  const wrong = Array.isArray(said) ? said.find((one) => !isSample(one)) : said;
  if (Array.isArray(said) && wrong === undefined) return;
  throw new TypeError(`Gauges must return a list of { name, labels, value } with texts as labels, not ${nameOf(wrong)}.`);
}

function isSample(one: Partial<Sample> | null): boolean {
  const { name, labels, value } = one ?? {};
  const texts = typeof labels === "object" && labels !== null ? Object.values(labels) : [undefined];
  return typeof name === "string" && typeof value === "number" && texts.every((text) => typeof text === "string");
}

function nameOf(wrong: unknown): string {
  const { name } = (wrong ?? {}) as Partial<Sample>;
  return typeof name === "string" ? `the gauge ${JSON.stringify(name)}` : wrong === null ? "null" : `a ${typeof wrong}`;
}
