import { assertDeclared, isWhole } from "../contract/declared.ts";
import { backoffMs, type Duration, durationMs } from "../contract/duration.ts";
import { laneIn, MAX_DELAY_SECONDS, type QueueDefinition, queuesOf } from "../contract/queue.ts";
import type { OnFailure } from "../lanes/definition.ts";
import type { AnyWorkflow } from "../workflow/workflow.ts";
import { checkedRepairs, type Repair } from "./hooks.ts";
import { type Route, targetsOf } from "./routes.ts";

/**
 * The definition of a queue's consumer: how the consumer receives messages, and what the messages start. `wrangler.jsonc` must contain the
 * same values.
 */
export type ConsumerDefinition = CommandConsumer | EventConsumer;

/** The consumer of a queue of commands. Each command starts the workflow that performs the command. */
export interface CommandConsumer extends Policy {
  readonly starts: readonly AnyWorkflow[];
  readonly routes?: never;
}

/** The consumer of a queue of events: `routes` lists the targets of each event. */
export interface EventConsumer extends Policy {
  readonly routes: readonly Route[];
  readonly starts?: never;
}

/** The options of a consumer: how the consumer receives messages, and how often it tries each message. */
interface Policy {
  readonly queue: QueueDefinition;
  readonly retries: { readonly limit: number; readonly initialMs: number; readonly maxMs: number };
  readonly batch: { readonly size: number; readonly waitSeconds: number };
  /**
   * Maximum number of batches of the queue in parallel. Without a limit, the platform runs up to 250 batches in parallel, and each batch
   * writes to the same database. For a lane, the value is the maximum number of instances in progress per key.
   */
  readonly concurrency: number;
  /**
   * Time limit for one batch of messages. Messages that are not accepted within this time are returned to the queue, before the platform
   * ends the handler.
   */
  readonly deadlineMs: number;
  /** The reaction to a gap in a sender's sequence numbers. If undefined, sequence numbers are not checked. */
  readonly sequence: GapRule | undefined;
  /** The delay of low-priority commands. If undefined, the queue has no priorities. */
  readonly priority: { readonly lowMs: number } | undefined;
  /** The reaction of a lane to a failure. Undefined for a queue, because a queue has a dead-letter queue instead. */
  readonly onFailure: OnFailure | undefined;
  /** The repairs that the engine tries when it captures a dead letter of the queue. */
  readonly repairs: readonly Repair[];
  /** True if another Worker consumes the queue (see `elsewhere` of the catalog). */
  readonly isElsewhere?: boolean;
}

/**
 * The reaction to a message whose `sequence` is not the next number for the message's sender and subject.
 * - `wait`: the message is delayed until the gap is filled or the limit is reached. After the limit the message proceeds, and a missing
 *   message that arrives later becomes a dead letter.
 * - `retry`: the message uses its queue's retries, then becomes a dead letter.
 * - `skip`: the message proceeds at once, and missing messages that arrive later are ignored.
 */
export type GapRule = ({ readonly gap: "wait"; readonly limitMs: number } | { readonly gap: "retry" | "skip" }) & {
  /** The first sequence number that senders use. */
  readonly first: FirstNumber;
};
type FirstNumber = 0 | 1;

const FIRST_NUMBER: FirstNumber = 1;

/**
 * Maximum number of parallel batches of a dead-letter queue. One batch at a time is enough, because one statement stores a hundred dead
 * letters. More parallel batches would delay more important work in an overloaded database.
 */
export const DEAD_LETTER_CONCURRENCY = 1;

const RETRIES = { limit: 3, initial: "30 seconds", max: "10 minutes" } as const;
const BATCH = { size: 10, waitSeconds: 0 };

/**
 * Five consumers with batches of 10, 0.4 s per batch, start 125 instances per second. The platform creates at most 100 per second of one
 * workflow, so the platform would refuse the instances of a sixth consumer.
 */
const CONCURRENCY = 5;

/** The platform ends a queue's handler after 15 minutes: https://developers.cloudflare.com/queues/platform/limits/ */
const DEADLINE: Duration = "13 minutes";
const WALL_MS = 15 * 60_000;
/** The platform's maximum number of retries of a queue's message. */
const MAX_QUEUE_RETRIES = 100;

/** The retry delays of a lane are short, because all further messages of the lane wait for the head message. */
const LANE_RETRIES = { limit: 3, initial: "1 second", max: "30 seconds" } as const;
/** The batch size of a lane is one, because the messages of a batch would be accepted in parallel. */
const LANE_BATCH = { size: 1, waitSeconds: 0 };
const LANE_CONCURRENCY = 1;
/** The time limit is less than the 70 seconds for which a Durable Object with pending work stays in memory. */
const LANE_DEADLINE: Duration = "1 minute";

interface Retries {
  limit: number;
  initial: Duration;
  max: Duration;
}

type ConsumerOptions = {
  queue: QueueDefinition;
  retries?: Retries;
  batch?: { size: number; waitSeconds: number };
  concurrency?: number;
  deadline?: Duration;
  priority?: { low: Duration };
  sequence?: ({ gap: "wait"; limit: Duration } | { gap: "retry" | "skip" }) & { first?: FirstNumber };
  onFailure?: OnFailure;
  repairs?: readonly Repair[];
} & (Pick<CommandConsumer, "starts" | "routes"> | Pick<EventConsumer, "routes" | "starts">);

/**
 * Declares the consumer of a queue: `starts` lists the workflows that perform the queue's commands, and `routes` lists the targets of the
 * queue's events.
 *
 * Defaults: 3 `retries` after 30 seconds up to 10 minutes. A `batch` of 10 messages without a wait, because users may wait for the result.
 * A `concurrency` of 5 parallel batches. A `deadline` of 13 minutes for a batch. With `priority`, a command may have a high priority
 * (`high`) and start at once before all queued messages. A command with a low priority (`low`) is delayed by the given time. `sequence`
 * sets the reaction to a gap in a sender's sequence numbers, and the first sequence number (`first`, default 1). `repairs` fix known
 * failures of the queue's messages, and at most one repair is tried for each message.
 *
 * For a lane (`defineLaneQueue`) `onFailure` is required. Defaults: 3 `retries` after 1 second up to 30 seconds. A `batch` of 1 message. A
 * `concurrency` of 1 instance in progress per key. A `deadline` of 1 minute. Errors: `config_invalid`.
 */
export function defineConsumer(options: ConsumerOptions): ConsumerDefinition {
  checkConsumer(options);
  const isLane = laneIn(options.queue.name) !== undefined;
  const {
    retries = isLane ? LANE_RETRIES : RETRIES,
    batch = isLane ? LANE_BATCH : BATCH,
    concurrency = isLane ? LANE_CONCURRENCY : CONCURRENCY,
    deadline = isLane ? LANE_DEADLINE : DEADLINE,
    priority,
    sequence,
    onFailure,
    repairs = [],
    ...takes
  } = options;
  return {
    ...takes,
    retries: checkedRetries(takes.queue, retries),
    batch,
    concurrency,
    deadlineMs: checkedDeadline(takes.queue, durationMs(deadline)),
    sequence: sequence && gapRule(sequence),
    priority: priority && { lowMs: checkedLow(takes.queue, durationMs(priority.low)) },
    onFailure,
    repairs: checkedRepairs(takes.queue, repairs),
  };
}

function gapRule({ first = FIRST_NUMBER, ...rule }: NonNullable<ConsumerOptions["sequence"]>): GapRule {
  return rule.gap === "wait" ? { gap: rule.gap, limitMs: durationMs(rule.limit), first } : { gap: rule.gap, first };
}

function checkedRetries({ name }: QueueDefinition, retries: Retries): Policy["retries"] {
  const most = laneIn(name) === undefined ? MAX_QUEUE_RETRIES : Number.MAX_SAFE_INTEGER;
  const bounds = laneIn(name) === undefined ? `0 to ${MAX_QUEUE_RETRIES}` : "0 or more";
  const { limit, initial, max } = retries ?? {};
  const has = `The consumer of "${name}" has retries`;
  assertDeclared(isWhole(limit, [0, most]), `${has}.limit ${limit}: use a whole number, ${bounds}.`);
  const [initialMs, maxMs] = [durationMs(initial), durationMs(max)];
  assertDeclared(Math.max(initialMs, maxMs) <= MAX_DELAY_SECONDS * 1000, `${has} with a delay above 12 hours: reduce it.`);
  assertDeclared(
    initialMs <= maxMs,
    `${has}.initial "${initial}", which is more than retries.max "${max}": increase max, or reduce initial.`,
  );
  return { limit, initialMs, maxMs };
}

function checkedDeadline({ name }: QueueDefinition, deadlineMs: number): number {
  assertDeclared(
    deadlineMs > 0 && deadlineMs < WALL_MS,
    `The deadline of "${name}" is ${deadlineMs / 1000} s: use more than 0 and less than 15 minutes, the platform's limit for a batch.`,
  );
  return deadlineMs;
}

function checkedLow({ name }: QueueDefinition, lowMs: number): number {
  assertDeclared(
    lowMs <= MAX_DELAY_SECONDS * 1000,
    `Commands of low priority wait ${lowMs / 1000} s on "${name}": use at most 12 hours, the longest delay of a queue.`,
  );
  return lowMs;
}

/**
 * The delay before the next delivery of a message that failed `attempt` times. The delay is at least 1 second and in whole seconds, because
 * queues require whole seconds.
 */
export function retryDelaySeconds({ retries }: ConsumerDefinition, attempt: number): number {
  return Math.max(1, Math.ceil(backoffMs(attempt, retries.initialMs, retries.maxMs) / 1000));
}

/** Returns one consumer for each queue that the definition covers. */
export function ofEachQueue(consumer: ConsumerDefinition): ConsumerDefinition[] {
  return queuesOf(consumer.queue).map((name) => ({ ...consumer, queue: { ...consumer.queue, name } }));
}

/** The consumers that this Worker runs. */
export function ownOf(consumers: readonly ConsumerDefinition[]): ConsumerDefinition[] {
  return consumers.filter(({ isElsewhere }) => !isElsewhere);
}

export function startedBy(consumers: readonly ConsumerDefinition[]): AnyWorkflow[] {
  return consumers.flatMap(({ starts = [] }) => starts);
}

export function routesOf(consumers: readonly ConsumerDefinition[]): Route[] {
  return consumers.flatMap(({ routes = [] }) => routes);
}

/** Returns every workflow of the consumers. Workflows that perform commands come before workflows that routes start. */
export function workflowsOf(consumers: readonly ConsumerDefinition[]): AnyWorkflow[] {
  const targets = routesOf(consumers).flatMap(targetsOf);
  return [...startedBy(consumers), ...targets.flatMap((target) => (target.do === "start" ? [target.workflow] : []))];
}

/** The options of a consumer. The types are not certain, because the options may come from JavaScript. */
interface Said {
  readonly queue?: QueueDefinition;
  readonly starts?: readonly unknown[] | undefined;
  readonly routes?: readonly unknown[] | undefined;
  readonly batch?: { readonly size: number; readonly waitSeconds: number };
  readonly concurrency?: number;
  readonly sequence?: object | undefined;
}

/** Limits of the platform: https://developers.cloudflare.com/queues/platform/limits/ */
const MAX_BATCH = 100;
const MAX_WAIT_SECONDS = 60;
const MAX_CONCURRENCY = 250;

/** Checks a consumer's options against the platform's limits. The limits of lanes are checked by the catalog. Errors: `config_invalid`. */
function checkConsumer(said: Said): void {
  const { queue, starts, routes, batch, concurrency, sequence } = said ?? {};
  assertDeclared(typeof queue?.name === "string", "A consumer must have a queue: pass the result of defineQueue({ name }).");
  const whose = `The consumer of "${queue.name}"`;
  assertDeclared(
    Array.isArray(starts ?? routes),
    `${whose} needs a list of workflows in starts, for commands, or a list of on(event, …) in routes, for events.`,
  );
  const isWorkflow = (one: unknown) => {
    const { run, on } = (one ?? {}) as { run?: unknown; on?: { type?: unknown } };
    return typeof run === "function" && typeof on?.type === "string";
  };
  const isRoute = (one: unknown) => typeof (one as { event?: { type?: unknown } } | undefined)?.event?.type === "string";
  const misses = "Check that it is exported, and that no two files import each other.";
  assertDeclared(
    (starts ?? []).every(isWorkflow),
    `${whose} has an entry in starts that is not the result of defineWorkflow(…). ${misses}`,
  );
  assertDeclared((routes ?? []).every(isRoute), `${whose} has an entry in routes that is not the result of on(event, …). ${misses}`);
  if (sequence) {
    const { gap, first = 1 } = sequence as { gap?: unknown; first?: unknown };
    const isRule = ["wait", "retry", "skip"].includes(String(gap)) && (first === 0 || first === 1);
    assertDeclared(
      isRule,
      `${whose} has the invalid sequence ${JSON.stringify(sequence)}: use gap: "wait", "retry" or "skip", and first: 0 or 1.`,
    );
    const isLate = (one: unknown) => (one as { targets?: { isLate?: boolean }[] }).targets?.some((target) => target.isLate) ?? false;
    assertDeclared(
      !(routes ?? []).some(isLate),
      `${whose} has a sequence, so a redelivery would not repeat call(…, { after: "commit" }): remove \`after\`.`,
    );
  }
  if (laneIn(queue.name) !== undefined) return;
  const { size = 1, waitSeconds = 0 } = batch ?? {};
  assertDeclared(isWhole(size, [1, MAX_BATCH]), `${whose} has batch.size ${size}: use 1 to ${MAX_BATCH} messages.`);
  assertDeclared(
    isWhole(waitSeconds, [0, MAX_WAIT_SECONDS]),
    `${whose} has batch.waitSeconds ${waitSeconds}: use 0 to ${MAX_WAIT_SECONDS}.`,
  );
  const isConcurrency = concurrency === undefined || isWhole(concurrency, [1, MAX_CONCURRENCY]);
  assertDeclared(isConcurrency, `${whose} has concurrency ${concurrency}: use 1 to ${MAX_CONCURRENCY} batches at a time.`);
}
