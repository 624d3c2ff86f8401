import { type Duration, durationMs } from "../contract/duration.ts";
import { MillraceError } from "../contract/errors.ts";
import { MAX_DELAY_SECONDS } from "../contract/queue.ts";

/**
 * What a lane does with a head that has failed more often than its retries allow. `block`: it stays, and is tried again for ever; nothing
 * passes it. `park`: it becomes a dead letter and the lane goes on. `hold`: the lane stands still until a person decides.
 */
export type OnFailure = "block" | "park" | "hold";

export interface LaneRetries {
  /** Failures of one head that are followed by another try. Default: 3. */
  limit?: number;
  /** The wait after a head's first failure; each further one is twice as long, and each up to 10 % longer by chance. Default: 1 second. */
  initial?: Duration;
  /** The longest wait, at most 12 hours. Default: 30 seconds. */
  max?: Duration;
}

/** A message that its lane has given up, whole. */
export interface LaneLetter<Body = unknown> {
  lane: string;
  key: string;
  tenant: string | null;
  /** The message's id, the same as at its deliveries. */
  id: string;
  body: Body;
  idempotencyKey: string | null;
  /** `exhausted`: it failed more often than its retries allow; `skipped`: a person took it out. */
  reason: "exhausted" | "skipped";
  /** Deliveries that it had. */
  attempts: number;
  /** What its last failure said; null when it never failed. */
  error: string | null;
  sentAt: number;
  parkedAt: number;
}

/** An ordered queue per key: what is sent to one key is handled one after another, in the order of arrival; keys go side by side. */
export interface LaneDefinition<Body = unknown, E = Cloudflare.Env> {
  /** Lower case letters, digits and dashes, at most 63; it begins with a letter. */
  name: string;
  /** The handler, in the shape of a Cloudflare queue's. It runs inside the lane's object. */
  queue: ExportedHandlerQueueHandler<E, Body>;
  onFailure: OnFailure;
  retries?: LaneRetries;
  batch?: {
    /** Most messages in one call of the handler, 1 to 100. Default: 10. */
    size?: number;
  };
  /**
   * Longest time for one call of the handler; then it counts as failed, and what it settles afterwards is not heard. Default: 60
   * seconds.
   */
  deadline?: Duration;
  /** Bytes on disk from which on one lane of one key takes nothing more. Default: 8 GB; an object has 10. */
  maxBytes?: number;
  /** How long an idempotency key is known, at least, after its message was done. Default: 1 day. */
  remember?: Duration;
  /**
   * Takes a dead letter, and is called again, with a back-off of its own, until it succeeds; then the lane forgets the letter. Without it
   * letters stay in the lane until somebody removes them.
   */
  onDeadLetter?: (letter: LaneLetter<Body>, env: E) => unknown;
}

/** A lane of any body, for lists of them. */
export type AnyLane = LaneDefinition<never, never>;

const DEFAULT_LANE_RETRIES = { limit: 3, initial: "1 second", max: "30 seconds" } as const satisfies Required<LaneRetries>;
const DEFAULT_LANE_BATCH_SIZE = 10;
/** An object stays in memory at least 70 seconds while work of its own is under way. */
const DEFAULT_LANE_DEADLINE = "60 seconds";
const DEFAULT_LANE_MEMORY = "1 day";
const DEFAULT_LANE_BYTES = 8e9;

const MAX_BATCH_SIZE = 100;
const NAME = /^[a-z][a-z0-9-]{0,62}$/;

/** Declares a lane. */
export function defineLane<Body = unknown, E = Cloudflare.Env>(definition: LaneDefinition<Body, E>): LaneDefinition<Body, E> {
  return definition;
}

/** A lane's definition with every default filled in. */
export interface Plan {
  name: string;
  queue: (batch: MessageBatch, env: unknown, ctx: ExecutionContext) => unknown;
  onFailure: OnFailure;
  retries: { limit: number; initialMs: number; maxMs: number };
  batchSize: number;
  deadlineMs: number;
  maxBytes: number;
  rememberMs: number;
  onDeadLetter: ((letter: LaneLetter, env: unknown) => unknown) | undefined;
}

/** The plans of lanes by their names. Errors: `config_invalid`, which says what to change, also for two of one name. */
export function plansOf(lanes: readonly AnyLane[]): ReadonlyMap<string, Plan> {
  const plans = new Map(lanes.map((lane) => [lane.name, planOf(lane)]));
  if (plans.size === lanes.length) return plans;
  const twice = lanes.find(({ name }, at) => lanes.findIndex((other) => other.name === name) !== at);
  throw new MillraceError("config_invalid", `Two lanes are named "${twice?.name}": rename one.`);
}

function planOf(lane: AnyLane): Plan {
  const refuse = (what: string): never => {
    throw new MillraceError("config_invalid", `The lane "${lane.name}" ${what}`);
  };
  if (!NAME.test(lane.name)) refuse("needs a name of lower case letters, digits and dashes, at most 63, that begins with a letter.");
  if (!["block", "park", "hold"].includes(lane.onFailure)) refuse('must say what follows a failure: onFailure "block", "park" or "hold".');
  const { limit, initial, max } = { ...DEFAULT_LANE_RETRIES, ...lane.retries };
  if (!Number.isInteger(limit) || limit < 0) refuse(`has retries.limit ${limit}: say a whole number, 0 or more.`);
  const [initialMs, maxMs] = [durationMs(initial), durationMs(max)];
  if (Math.max(initialMs, maxMs) > MAX_DELAY_SECONDS * 1000) refuse("has retries that wait for longer than 12 hours: say less.");
  const batchSize = lane.batch?.size ?? DEFAULT_LANE_BATCH_SIZE;
  if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > MAX_BATCH_SIZE) {
    refuse(`has batch.size ${batchSize}: say 1 to ${MAX_BATCH_SIZE}.`);
  }
  const deadlineMs = durationMs(lane.deadline ?? DEFAULT_LANE_DEADLINE);
  if (deadlineMs === 0) refuse("has a deadline of nothing: say how long one call of the handler may take.");
  const maxBytes = lane.maxBytes ?? DEFAULT_LANE_BYTES;
  if (!(maxBytes > 0)) refuse(`has maxBytes ${maxBytes}: say how many bytes it may keep, more than 0.`);
  return {
    name: lane.name,
    queue: lane.queue as Plan["queue"],
    onFailure: lane.onFailure,
    retries: { limit, initialMs, maxMs },
    batchSize,
    deadlineMs,
    maxBytes,
    rememberMs: durationMs(lane.remember ?? DEFAULT_LANE_MEMORY),
    onDeadLetter: lane.onDeadLetter as Plan["onDeadLetter"],
  };
}
