import { type Duration, durationMs } from "../contract/duration.ts";
import { MillraceError } from "../contract/errors.ts";
import { objectNameOf, partsOf } from "../contract/object-name.ts";
import { MAX_DELAY_SECONDS } from "../contract/queue.ts";
import { characterCount } from "../contract/text.ts";

/**
 * The policy for a head message that has used up its retries. `block`: retries the head without limit, and no message passes it. `park`:
 * makes the head a dead letter and continues with the next message. `hold`: stops the lane until an operator decides.
 */
export type OnFailure = "block" | "park" | "hold";

export interface LaneRetries {
  /** Retries of one head message. Default: 3. */
  limit?: number;
  /** Delay before the first retry. The delay doubles with each further retry, plus up to 10 % at random. Default: 1 second. */
  initial?: Duration;
  /** Maximum delay before a retry. The setting can be at most 12 hours. Default: 30 seconds. */
  max?: Duration;
}

/** A dead letter of a lane. The lane no longer tries to deliver its message. */
export interface LaneLetter<Body = unknown> {
  lane: string;
  key: string;
  tenant: string | null;
  /** The id of the message, as in the message's deliveries. */
  id: string;
  body: Body;
  idempotencyKey: string | null;
  /** `exhausted`: the message's retries were used up; `skipped`: an operator skipped the message. */
  reason: "exhausted" | "skipped";
  /** Number of deliveries of the message. */
  attempts: number;
  /** The error of the last failure; null when the message never failed. */
  error: string | null;
  sentAt: number;
  parkedAt: number;
}

/**
 * An ordered queue per key: messages with the same key are handled in sequence, in the order of arrival. Messages with different keys are
 * handled in parallel.
 */
export interface LaneDefinition<Body = unknown, E = Cloudflare.Env> {
  /** The lane's name. The name has at most 63 lower case letters, digits and dashes, and starts with a letter. */
  name: string;
  /** The handler, with the signature of a Cloudflare queue handler. The handler runs inside the lane's object. */
  queue: ExportedHandlerQueueHandler<E, Body>;
  onFailure: OnFailure;
  retries?: LaneRetries;
  batch?: {
    /** Maximum number of messages per call of the handler, 1 to 100. Default: 10. */
    size?: number;
  };
  /**
   * Maximum time for one call of the handler. A call that takes longer has failed, and its later acknowledgements are ignored. Default: 60
   * seconds.
   */
  deadline?: Duration;
  /**
   * Maximum size of the storage of a lane's object, in bytes. Above this size the lane refuses messages. Default: 8 GB, because the
   * platform's limit is 10 GB.
   */
  maxBytes?: number;
  /** Minimum time for which the lane stores an idempotency key after its message is done. Default: 1 day. */
  remember?: Duration;
  /**
   * A handler that gets each dead letter of the lane. A failed call is retried with a back-off that does not affect the lane. After a
   * successful call the lane deletes the dead letter. Without this handler dead letters remain in the lane until an operator removes them.
   */
  onDeadLetter?: (letter: LaneLetter<Body>, env: E) => unknown;
}

/** A lane with any type of message body, for lists of lanes with different types. */
export type AnyLane = LaneDefinition<never, never>;

const DEFAULT_LANE_RETRIES = { limit: 3, initial: "1 second", max: "30 seconds" } as const satisfies Required<LaneRetries>;
const DEFAULT_LANE_BATCH_SIZE = 10;
/**
 * Default time limit of a handler's call. The limit is below 70 seconds, the minimum time for which an object stays in memory while its own
 * work is in progress.
 */
const DEFAULT_LANE_DEADLINE = "60 seconds";
const DEFAULT_LANE_MEMORY = "1 day";
const DEFAULT_LANE_BYTES = 8e9;

const MAX_BATCH_SIZE = 100;
const NAME = /^[a-z][a-z0-9-]{0,62}$/;

export function defineLane<Body = unknown, E = Cloudflare.Env>(definition: LaneDefinition<Body, E>): LaneDefinition<Body, E> {
  return definition;
}

/** A lane's definition with all defaults. */
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

/**
 * The definitions of lanes with all defaults, by name. Errors: `config_invalid` for an invalid definition, or for two lanes with the same
 * name.
 */
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
  if (!["block", "park", "hold"].includes(lane.onFailure)) refuse('needs onFailure "block", "park" or "hold".');
  const { limit, initial, max } = { ...DEFAULT_LANE_RETRIES, ...lane.retries };
  if (!Number.isInteger(limit) || limit < 0) refuse(`has retries.limit ${limit}: set a whole number, 0 or more.`);
  const [initialMs, maxMs] = [durationMs(initial), durationMs(max)];
  if (Math.max(initialMs, maxMs) > MAX_DELAY_SECONDS * 1000) refuse("has a retry delay above 12 hours: set a shorter one.");
  const batchSize = lane.batch?.size ?? DEFAULT_LANE_BATCH_SIZE;
  if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > MAX_BATCH_SIZE) {
    refuse(`has batch.size ${batchSize}: set 1 to ${MAX_BATCH_SIZE}.`);
  }
  const deadlineMs = durationMs(lane.deadline ?? DEFAULT_LANE_DEADLINE);
  if (deadlineMs === 0) refuse("has a deadline of 0: set the longest time of one call of the handler.");
  const maxBytes = lane.maxBytes ?? DEFAULT_LANE_BYTES;
  if (!(maxBytes > 0)) refuse(`has maxBytes ${maxBytes}: set a number above 0.`);
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

/** Identifies one lane. Each lane has its own object. */
export interface LaneName {
  lane: string;
  /** The tenant; null for lanes without tenants. */
  tenant: string | null;
  key: string;
}

/** Maximum length of a lane's key, in characters. */
const MAX_LANE_KEY_CHARACTERS = 500;

export function objectName({ lane, tenant, key }: LaneName): string {
  return objectNameOf([lane, tenant, key]);
}

/** Parses the name that `objectName` made; undefined for a name in another format. */
export function parseObjectName(name: string | undefined): LaneName | undefined {
  const [lane, tenant, key] = partsOf(name, 3) ?? [];
  return typeof lane === "string" && tenant !== undefined && typeof key === "string" ? { lane, tenant, key } : undefined;
}

/**
 * Returns the name of the lane if its key and its tenant are valid. Errors: `invalid_payload`, whose message says whether the key or the
 * tenant is invalid.
 */
export function checkedName(name: LaneName): LaneName {
  assertPart(name, "key");
  if (name.tenant !== null) assertPart(name, "tenant");
  return name;
}

function assertPart(name: LaneName, path: "key" | "tenant"): void {
  const message = wrongIn(name[path]);
  if (message === undefined) return;
  throw new MillraceError("invalid_payload", `The ${path} of a lane "${name.lane}" ${message}.`, { issues: [{ path, message }] });
}

function wrongIn(part: unknown): string | undefined {
  if (typeof part !== "string") return "must be a text";
  const count = characterCount(part);
  if (count < 1 || count > MAX_LANE_KEY_CHARACTERS)
    return `must have 1 to ${MAX_LANE_KEY_CHARACTERS} characters; this one has ${count}: send a hash of it, or an id`;
  return part.isWellFormed() ? undefined : "contains half of a surrogate pair: send well-formed Unicode";
}
