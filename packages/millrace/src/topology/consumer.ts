import { assertDeclared, isWhole } from "../contract/declared.ts";
import { backoffMs, type Duration, durationMs } from "../contract/duration.ts";
import { laneIn, MAX_DELAY_SECONDS, type QueueDefinition, queuesOf } from "../contract/queue.ts";
import type { OnFailure } from "../lanes/definition.ts";
import type { AnyWorkflow } from "../workflow/workflow.ts";
import { checkConsumer } from "./check-consumer.ts";
import { checkedRepairs, type Repair } from "./repairs.ts";
import { type Route, targetsOf } from "./routes.ts";

/** The consumer of one queue as data: how messages are taken from it, and what they lead to. `wrangler.jsonc` must say the same. */
export type ConsumerDefinition = CommandConsumer | EventConsumer;

/** The consumer of a queue of commands: each starts the workflow that performs it. */
export interface CommandConsumer extends Policy {
  readonly starts: readonly AnyWorkflow[];
  readonly routes?: never;
}

/** The consumer of a queue of events: what each leads to is its line in the routes. */
export interface EventConsumer extends Policy {
  readonly routes: readonly Route[];
  readonly starts?: never;
}

/** How messages are taken from a queue, and how often each is tried. */
interface Policy {
  readonly queue: QueueDefinition;
  readonly retries: { readonly limit: number; readonly initialMs: number; readonly maxMs: number };
  readonly batch: { readonly size: number; readonly waitSeconds: number };
  /**
   * Batches consumed at one moment, at most. Left to itself the platform goes up to 250, each with a write to the one database. Of a lane:
   * instances of one key under way at one moment.
   */
  readonly concurrency: number;
  /** Longest time for one batch: what is not taken in by then goes back, unharmed, before the platform ends the handler. */
  readonly deadlineMs: number;
  /** What a gap in the numbers of a sender's messages means; undefined where the order is nobody's concern. */
  readonly sequence: GapRule | undefined;
  /** What the priorities of commands mean here; undefined where the queue has none. */
  readonly priority: { readonly lowMs: number } | undefined;
  /** What a lane does with what fails; undefined for a queue, which has a dead-letter queue for it. */
  readonly onFailure: OnFailure | undefined;
  /** What is tried on its dead letters as they are captured. */
  readonly repairs: readonly Repair[];
}

/**
 * What becomes of a message whose `sequence` is not the next of its sender about its subject. `wait`: it comes back until the gap is filled,
 * or until it is so old; then it goes on without what is missing, which becomes a dead letter if it still comes. `retry`: it has its
 * queue's retries, then it is a dead letter. `skip`: it goes on at once, and what comes behind it is left out.
 */
export type GapRule = ({ readonly gap: "wait"; readonly limitMs: number } | { readonly gap: "retry" | "skip" }) & {
  /** The number with which senders begin. */
  readonly first: FirstNumber;
};
type FirstNumber = 0 | 1;

const FIRST_NUMBER: FirstNumber = 1;

/** Consumers of a dead-letter queue: one statement keeps a hundred letters, and the work whose database is in trouble comes first. */
export const DEAD_LETTER_CONCURRENCY = 1;

const RETRIES = { limit: 3, initial: "30 seconds", max: "10 minutes" } as const;
const BATCH = { size: 10, waitSeconds: 0 };

/**
 * Five consumers with batches of 10, each of them 0.4 s at work, start 125 instances a second: more than the 100 a second that the
 * platform creates of one workflow, so that a sixth would only be refused.
 */
const CONCURRENCY = 5;

/** The platform ends a queue's handler after 15 minutes: https://developers.cloudflare.com/queues/platform/limits/ */
const DEADLINE: Duration = "13 minutes";
const WALL_MS = 15 * 60_000;
/** The platform tries a message of a queue again at most so often. */
const MAX_QUEUE_RETRIES = 100;

/** A head is tried again soon: all that is behind it waits. */
const LANE_RETRIES = { limit: 3, initial: "1 second", max: "30 seconds" } as const;
/** Messages of a lane are taken in one by one: those of one batch would be taken together. */
const LANE_BATCH = { size: 1, waitSeconds: 0 };
const LANE_CONCURRENCY = 1;
/** An object stays in memory for 70 seconds while work of its own is under way. */
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
 * Declares the consumer of a queue: `starts` lists the workflows that perform a queue's commands, `routes` what follows from its events.
 * Retries default to 3, from 30 seconds up to 10 minutes; batches to 10 messages and no wait, as suits a queue a person waits for;
 * concurrency to 5 batches at a time; the deadline of a batch to 13 minutes. `priority` lets commands of this queue be asked for as `high`,
 * which start at once, ahead of all that wait in the queue, and as `low`, which are held back for so long. `sequence` says what a gap in a
 * sender's numbers means, and whether they begin with 0 (`first`; default 1). Of a lane (`defineLaneQueue`)
 * `onFailure` must be said; retries default to 3, from 1 second up to 30 seconds; batches to one message; `concurrency` to one instance of a
 * key under way; the deadline to a minute. `repairs` mend known failures of its messages, once each. Errors: `config_invalid`.
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
  assertDeclared(isWhole(limit, [0, most]), `${has}.limit ${limit}: say a whole number, ${bounds}.`);
  const [initialMs, maxMs] = [durationMs(initial), durationMs(max)];
  assertDeclared(Math.max(initialMs, maxMs) <= MAX_DELAY_SECONDS * 1000, `${has} that wait for longer than 12 hours: say less.`);
  assertDeclared(initialMs <= maxMs, `${has}.initial "${initial}", and retries.max "${max}" is less: say at least as much.`);
  return { limit, initialMs, maxMs };
}

function checkedDeadline({ name }: QueueDefinition, deadlineMs: number): number {
  assertDeclared(
    deadlineMs > 0 && deadlineMs < WALL_MS,
    `The deadline of "${name}" is ${deadlineMs / 1000} s: the platform ends a batch after 15 minutes; say less, and more than nothing.`,
  );
  return deadlineMs;
}

function checkedLow({ name }: QueueDefinition, lowMs: number): number {
  assertDeclared(
    lowMs <= MAX_DELAY_SECONDS * 1000,
    `Commands of low priority wait ${lowMs / 1000} s on "${name}": a queue holds nothing for longer than 12 hours.`,
  );
  return lowMs;
}

/** Seconds before the next delivery of a message that failed `attempt` times: whole seconds, at least one, as queues count. */
export function retryDelaySeconds({ retries }: ConsumerDefinition, attempt: number): number {
  return Math.max(1, Math.ceil(backoffMs(attempt, retries.initialMs, retries.maxMs) / 1000));
}

/** The consumers of all queues that a declared one stands for: alike, each of one queue. */
export function ofEachQueue(consumer: ConsumerDefinition): ConsumerDefinition[] {
  return queuesOf(consumer.queue).map((name) => ({ ...consumer, queue: { ...consumer.queue, name } }));
}

/** The workflows that consumers of commands start. */
export function startedBy(consumers: readonly ConsumerDefinition[]): AnyWorkflow[] {
  return consumers.flatMap(({ starts = [] }) => starts);
}

/** The lines of all consumers of events. */
export function routesOf(consumers: readonly ConsumerDefinition[]): Route[] {
  return consumers.flatMap(({ routes = [] }) => routes);
}

/** Every workflow: those that perform commands, then those that routes start. */
export function workflowsOf(consumers: readonly ConsumerDefinition[]): AnyWorkflow[] {
  const targets = routesOf(consumers).flatMap(targetsOf);
  return [...startedBy(consumers), ...targets.flatMap((target) => (target.do === "start" ? [target.workflow] : []))];
}
