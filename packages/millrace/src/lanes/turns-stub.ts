import { assertSendable } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { within } from "../contract/within.ts";
import type { LaneName } from "./lane-name.ts";
import type { LaneHead, LaneLook } from "./look.ts";
import { type Posted, posted } from "./message.ts";
import { inLane, laneOfMessage } from "./relay.ts";
import { laneObjectOf } from "./stub.ts";

/** How a run ended; `skipped`: a person has closed its instance for good. */
export interface RunEnd {
  readonly status: "complete" | "errored" | "terminated" | "skipped";
  readonly error: string | null;
}

/** Where a message is: it `waits` in its lane, or its turn was `given`. */
export type Turn = "waits" | "given";

/** An instance that has had its turn and keeps the next ones from theirs. */
export interface Ahead {
  instanceId: string;
  since: number;
  /** Why it failed; null while it is under way. */
  failed: string | null;
}

/** How a lane stands that the engine takes messages from. */
export interface LaneStanding extends Omit<LaneLook, "state" | "head"> {
  /** As of any lane; `waiting`: for instances that are under way. */
  state: LaneLook["state"] | "waiting";
  head: (LaneHead & { type: string | null }) | null;
  ahead: Ahead[];
}

/** What a person can do with a lane. */
export const LANE_VERBS = ["pause", "resume", "retry_head", "skip_head"] as const;
export type LaneVerb = (typeof LANE_VERBS)[number];

export interface SteerRequest {
  readonly verb: LaneVerb;
  /** The head, or the instance, that is meant; default whichever it is. */
  readonly id?: string | undefined;
  readonly actionId: string;
  readonly actor: string;
  readonly tokenId?: string | undefined;
  readonly scope?: string | undefined;
  readonly reason: string;
}

/** Done, and what it was done to; or not, and why. */
export type SteerAnswer = { done: true; messageId: string | null; instanceIds: string[] } | { done: false; reason: string; state: string };

/** What the engine asks of a lane's object. */
export interface LaneTurns {
  /** A run has ended: its place is the next one's. */
  ended(instanceId: string, end: RunEnd): void;
  /** Where these messages are. One that the lane has never had is kept now. */
  turnsOf(posts: readonly Posted[]): Promise<Turn[]>;
  /** How it stands; undefined when the deployment has no such lane. */
  stand(): Promise<LaneStanding | undefined>;
  /** Does what a person says; undefined when the deployment has no such lane. */
  steer(request: SteerRequest): Promise<SteerAnswer | undefined>;
}

export type TurnsStub = {
  [Name in keyof LaneTurns]: (...args: Parameters<LaneTurns[Name]>) => Promise<Awaited<ReturnType<LaneTurns[Name]>>>;
};

/** The object of a lane that the engine takes messages from. Errors: `config_invalid` where it is not bound. */
export function turnsObjectOf(env: object, name: LaneName): TurnsStub {
  assertSendable(env, { name: `lane:${name.lane}` });
  return laneObjectOf(env, name) as unknown as TurnsStub;
}

/** Longest wait of a run's end for its lane: what it does not hear, it asks the database for. */
const TELL_LIMIT_MS = 2000;

/** Tells the lane in front of a workflow that a run has ended. Errors: whatever its object does not answer with. */
export async function tellEnded(env: object, queue: string, envelope: Envelope, instanceId: string, end: RunEnd): Promise<void> {
  await within(turnsObjectOf(env, laneOfMessage(queue, envelope)).ended(instanceId, end), TELL_LIMIT_MS);
}

/** The same for an end that its lane finds out, where it does not hear of it. Never throws. */
export async function tellTurnOver(...told: Parameters<typeof tellEnded>): Promise<void> {
  const [, , , instanceId] = told;
  try {
    await tellEnded(...told);
  } catch (error) {
    logLine("warn", { log: "turn_over", instance_id: instanceId, error: messageOf(error) });
  }
}

/** Where the messages of one lane are, in their order. Errors: whatever its object does not answer with. */
export async function turnsOf(env: object, queue: string, envelopes: readonly [Envelope, ...Envelope[]]): Promise<Turn[]> {
  const posts = envelopes.map((envelope) => {
    const { body, ...options } = inLane(queue, envelope);
    return posted(queue, body, options);
  });
  return within(turnsObjectOf(env, laneOfMessage(queue, envelopes[0])).turnsOf(posts));
}
