import { type Duration, durationMs } from "../contract/duration.ts";
import { MillraceError } from "../contract/errors.ts";
import { objectNameOf, partsOf } from "../contract/object-name.ts";
import { MAX_DELAY_SECONDS } from "../contract/queue.ts";
import { isScope } from "../contract/token.ts";
import type { PullContentType } from "./message.ts";

/** A dead letter: a message that its pull queue no longer delivers. */
export interface PullLetter<Body = unknown> {
  queue: string;
  tenant: string;
  /** The message id, as in the deliveries of the message. */
  id: string;
  /** The body of the message as sent. Bytes are an `ArrayBuffer`. */
  body: Body;
  contentType: PullContentType;
  /**
   * `exhausted`: the message was returned, or its leases expired, more often than the retries allow. `expired`: the message was in the
   * queue longer than the retention.
   */
  reason: "exhausted" | "expired";
  /** Number of deliveries of the message. */
  attempts: number;
  /** The time when the message was sent, in milliseconds since 1970. */
  sentAt: number;
  /** The time when the message became a dead letter, in milliseconds since 1970. */
  deadAt: number;
}

/** A queue for programs outside Cloudflare, which lease the queue's messages over HTTP. */
export interface PullQueueDefinition<Body = unknown, E = Cloudflare.Env> {
  /**
   * The queue's name: at most 63 lower case letters, digits and dashes; the first character is a letter. The name is the `queue_id` of the
   * queue's URL.
   */
  name: string;
  retries?: {
    /** Maximum number of retries of one message after failed deliveries. Default: 3. */
    limit?: number;
    /**
     * Delay before a message is delivered again after its lease expired, or after a puller returned the message without a delay. The delay
     * is at most 12 hours. Default: 0.
     */
    delay?: Duration;
  };
  /** Lease duration for a pull request without a duration. Default: 30 seconds; at most 12 hours. */
  visibility?: Duration;
  /** Maximum time that a message stays in the queue before the message becomes a dead letter. Default: 4 days. */
  retention?: Duration;
  /** How long the queue remembers a message's idempotency key after the send. Default: 1 day; at most 365 days. */
  remember?: Duration;
  /** The scope that a token needs to pull and to acknowledge. Default: `pull`. */
  scope?: string;
  /**
   * A handler that gets each dead letter, inside the queue's Durable Object. A failed call is retried with a back-off. After a successful
   * call, the queue deletes the dead letter. A call may take 60 seconds. Default: in a Worker with the engine, the queue's dead letters
   * become the engine's dead letters. In a Worker without the engine, they remain in the queue until an operator removes them.
   */
  onDeadLetter?: (letter: PullLetter<Body>, env: E) => unknown;
}

/** A pull queue with any type of body, for lists of queues. */
export type AnyPullQueue = PullQueueDefinition<never, never>;

const DEFAULT_PULL_RETRIES = { limit: 3, delay: 0 } as const;
const DEFAULT_VISIBILITY = "30 seconds";
const DEFAULT_RETENTION = "4 days";
const DEFAULT_PULL_MEMORY = "1 day";
/** The scope that a token needs to pull from a queue whose definition has no `scope`. A tenant's external programs need no other scope. */
export const PULL_SCOPE = "pull";

/** Maximum duration of a lease, in milliseconds. A Cloudflare queue has the same limit. */
export const MAX_VISIBILITY_MS = 12 * 3_600_000;
const MAX_RETENTION_MS = 365 * 86_400_000;
const MIN_RETENTION_MS = 60_000;
const NAME = /^[a-z][a-z0-9-]{0,62}$/;

export function definePullQueue<Body = unknown, E = Cloudflare.Env>(
  definition: PullQueueDefinition<Body, E>,
): PullQueueDefinition<Body, E> {
  return definition;
}

/** A queue's definition with all defaults. */
export interface PullPlan {
  name: string;
  retryLimit: number;
  retryDelayMs: number;
  visibilityMs: number;
  retentionMs: number;
  rememberMs: number;
  scope: string;
  onDeadLetter: ((letter: PullLetter, env: unknown) => unknown) | undefined;
}

/** Returns a queue's definition with all defaults. Errors: `config_invalid`, with the necessary change. */
function planOf(queue: AnyPullQueue): PullPlan {
  const refuse = (what: string): never => {
    throw new MillraceError("config_invalid", `The pull queue "${queue.name}" ${what}`);
  };
  if (!NAME.test(queue.name)) refuse("needs a name of lower case letters, digits and dashes, at most 63, that begins with a letter.");
  const { limit, delay } = { ...DEFAULT_PULL_RETRIES, ...queue.retries };
  if (!Number.isInteger(limit) || limit < 0) refuse(`has retries.limit ${limit}: set a whole number, 0 or more.`);
  const visibilityMs = durationMs(queue.visibility ?? DEFAULT_VISIBILITY);
  if (visibilityMs < 1 || visibilityMs > MAX_VISIBILITY_MS) refuse("has a visibility out of range: set more than 0, at most 12 hours.");
  const retryDelayMs = durationMs(delay);
  if (retryDelayMs > MAX_DELAY_SECONDS * 1000) refuse("has a retries.delay out of range: set at most 12 hours.");
  const retentionMs = durationMs(queue.retention ?? DEFAULT_RETENTION);
  if (retentionMs < MIN_RETENTION_MS || retentionMs > MAX_RETENTION_MS) refuse("has a retention out of range: set 1 minute to 365 days.");
  const rememberMs = durationMs(queue.remember ?? DEFAULT_PULL_MEMORY);
  if (rememberMs > MAX_RETENTION_MS) refuse("has a remember out of range: set at most 365 days.");
  const scope = queue.scope ?? PULL_SCOPE;
  if (!isScope(scope)) refuse(`has the scope "${scope}", which no token can have: set one word in lower case.`);
  return {
    name: queue.name,
    retryLimit: limit,
    retryDelayMs,
    visibilityMs,
    retentionMs,
    rememberMs,
    scope,
    onDeadLetter: queue.onDeadLetter as PullPlan["onDeadLetter"],
  };
}

/** The definitions of queues with all defaults, by name. Errors: `config_invalid`, also for two queues with the same name. */
export function plansOf(queues: readonly AnyPullQueue[]): ReadonlyMap<string, PullPlan> {
  const plans = new Map(queues.map((queue) => [queue.name, planOf(queue)]));
  if (plans.size === queues.length) return plans;
  const twice = queues.find(({ name }, at) => queues.findIndex((other) => other.name === name) !== at);
  throw new MillraceError("config_invalid", `Two pull queues are called "${twice?.name}": rename one of them.`);
}

/** Identifies one tenant's queue. Each queue of a tenant has a separate Durable Object. */
export interface PullName {
  queue: string;
  tenant: string;
}

export function objectName({ queue, tenant }: PullName): string {
  return objectNameOf([queue, tenant]);
}

/** Parses a name that `objectName` returned; undefined for a name in any other format. */
export function pullNameOf(name: string | undefined): PullName | undefined {
  const [queue, tenant] = partsOf(name, 2) ?? [];
  return typeof queue === "string" && typeof tenant === "string" ? { queue, tenant } : undefined;
}
