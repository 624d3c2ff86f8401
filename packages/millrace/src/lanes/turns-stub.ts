import { assertSendable } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { within } from "../contract/within.ts";
import { laneObjectOf } from "./client.ts";
import type { LaneName } from "./definition.ts";
import type { LaneLook } from "./look.ts";
import { type Posted, posted } from "./message.ts";
import { inLane, laneOfMessage } from "./relay.ts";

/** The end of a run. The status `skipped` means that an operator has closed the instance. */
export interface RunEnd {
  readonly status: "complete" | "errored" | "terminated" | "skipped";
  readonly error: string | null;
  /** The run's number, or 0 if the lane has read the end from the database. */
  readonly run: number;
}

/** The state of a message of a lane. `waits`: the message waits in its lane. `given`: the turn of the message has begun. */
export type Turn = "waits" | "given";

/** The state of a lane whose messages start instances. The schema `LaneRow` describes the fields. Times are in milliseconds. */
export interface LaneStanding extends Omit<LaneLook, "state" | "head" | "oldestAt"> {
  /** The state of the lane, as for any lane. The additional state `waiting` means that the lane waits for running instances. */
  state: LaneLook["state"] | "waiting";
  oldest_at: number | null;
  head: {
    id: string;
    type: string | null;
    idempotency_key: string | null;
    sent_at: number;
    attempts: number;
    error: string | null;
    next_at: number | null;
  } | null;
  /** The instances whose turn has begun and that block the next message. `failed`: the error of the run; null while it runs. */
  ahead: { instance_id: string; since: number; failed: string | null }[];
}

/** An operator's actions on a lane. */
export const LANE_VERBS = ["pause", "resume", "retry_head", "skip_head"] as const;
export type LaneVerb = (typeof LANE_VERBS)[number];

export interface SteerRequest {
  readonly verb: LaneVerb;
  /** The id of the head or the instance that the operator expects. Default: the present head. */
  readonly id?: string | undefined;
  readonly actionId: string;
  readonly actor: string;
  readonly tokenId?: string | undefined;
  readonly scope?: string | undefined;
  readonly reason: string;
}

/** The result of an operator's action: the affected message and instances, or the reason why the action was not executed. */
export type SteerAnswer = { done: true; messageId: string | null; instanceIds: string[] } | { done: false; reason: string; state: string };

/** The methods of a lane's object that the engine calls. */
export interface LaneTurns {
  /** Records the end of a run, so that the lane can start the next message. */
  ended(instanceId: string, end: RunEnd): void;
  /**
   * Returns for each message whether the message waits or the message's turn has begun. The call stores messages that the lane has never
   * stored.
   */
  turnsOf(posts: readonly Posted[]): Promise<Turn[]>;
  /** Returns the lane's state; undefined if the deployment has no such lane. */
  stand(): Promise<LaneStanding | undefined>;
  /** Executes an operator's action on the lane; undefined if the deployment has no such lane. */
  steer(request: SteerRequest): Promise<SteerAnswer | undefined>;
}

export type TurnsStub = {
  [Name in keyof LaneTurns]: (...args: Parameters<LaneTurns[Name]>) => Promise<Awaited<ReturnType<LaneTurns[Name]>>>;
};

/** The Durable Object of a lane of the engine. Errors: `config_invalid` if the deployment has no binding for it. */
export function turnsObjectOf(env: object, name: LaneName): TurnsStub {
  assertSendable(env, { name: `lane:${name.lane}` });
  return laneObjectOf(env, name) as unknown as TurnsStub;
}

/** Time limit for notifying a lane of a run's end, in milliseconds. If the notification fails, the lane reads the end from the database. */
const TELL_LIMIT_MS = 2000;

/** Notifies the lane of a workflow that a run has ended. The call throws the errors of the lane's object, and the time-out. */
export async function tellEnded(env: object, queue: string, envelope: Envelope, instanceId: string, end: RunEnd): Promise<void> {
  await within(turnsObjectOf(env, laneOfMessage(queue, envelope)).ended(instanceId, end), TELL_LIMIT_MS);
}

/** Notifies the lane like `tellEnded`, but never throws. If the notification fails, the lane reads the end from the database. */
export async function notifyTurnOver(...told: Parameters<typeof tellEnded>): Promise<void> {
  const [, , , instanceId] = told;
  try {
    await tellEnded(...told);
  } catch (error) {
    logLine("warn", { log: "turn_over", instance_id: instanceId, error: messageOf(error) });
  }
}

/**
 * Returns for each message of one lane whether the message waits or the message's turn has begun. The call throws the errors of the lane's
 * object, and the time-out.
 */
export async function turnsOf(env: object, queue: string, envelopes: readonly [Envelope, ...Envelope[]]): Promise<Turn[]> {
  const posts = envelopes.map((envelope) => {
    const { body, ...options } = inLane(queue, envelope);
    return posted(queue, body, options);
  });
  return within(turnsObjectOf(env, laneOfMessage(queue, envelopes[0])).turnsOf(posts));
}
