import { assertSendable } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { outboxId } from "../contract/ids.ts";
import { laneIn } from "../contract/queue.ts";
import { within } from "../contract/within.ts";
import { type LaneKeyMessage, type LaneKeySent, sendToLanes } from "./client.ts";
import type { LaneName } from "./definition.ts";

interface Outgoing {
  readonly id: string;
  readonly delaySeconds: number;
  /** The message's envelope as JSON. */
  readonly body: string;
}

/** Returns the lane of a message. Each subject of a tenant has a separate lane. */
export function laneOfMessage(queue: string, { tenant_id: tenant, subject: key }: Pick<Envelope, "tenant_id" | "subject">): LaneName {
  return { lane: laneIn(queue) ?? queue, tenant, key };
}

/**
 * Delay in milliseconds before a failed send to a lane is repeated. A single failure often means only that the platform is moving the
 * object.
 */
const PAUSE_MS = 50;

/**
 * Sends messages to their lanes in order. The messages of one lane are stored together or not at all. A duplicate within a day is not
 * stored again. The function never throws, but returns the messages that were certainly not stored, each with the error.
 */
export async function sendInLanes(env: object, queue: string, messages: readonly Outgoing[]): Promise<{ id: string; error: string }[]> {
  const failed = await sendOnce(env, queue, messages);
  if (failed.size === 0 || [...failed.values()].every((error) => codeOf(error) === "config_invalid")) return said(failed);
  await scheduler.wait(PAUSE_MS);
  return said(
    await sendOnce(
      env,
      queue,
      messages.filter(({ id }) => failed.has(id)),
    ),
  );
}

const said = (failed: ReadonlyMap<string, unknown>) => [...failed].map(([id, error]) => ({ id, error: messageOf(error) }));

async function sendOnce(env: object, queue: string, messages: readonly Outgoing[]): Promise<ReadonlyMap<string, unknown>> {
  const posts: { id: string; post: LaneKeyMessage<Envelope> }[] = [];
  const errors = new Map<string, unknown>();
  for (const { id, body, delaySeconds } of messages) {
    try {
      posts.push({ id, post: inLane(queue, JSON.parse(body), delaySeconds) });
    } catch (error) {
      errors.set(id, error);
    }
  }
  let answers: LaneKeySent[];
  try {
    assertSendable(env, { name: queue });
    answers = await within(
      sendToLanes(
        env,
        { name: laneIn(queue) ?? queue } as never,
        posts.map(({ post }) => post),
      ),
    );
  } catch (error) {
    return new Map(messages.map(({ id }) => [id, error]));
  }
  const refused = new Map(answers.flatMap((one) => ("error" in one ? [[JSON.stringify([one.tenant, one.key]), one.error] as const] : [])));
  for (const { id, post } of posts) {
    const at = JSON.stringify([post.tenant, post.key]);
    if (refused.has(at)) errors.set(id, refused.get(at) ?? new MillraceError("unavailable", "The lane gave no reason."));
  }
  return errors;
}

/** The form in which a lane stores a message. The key of the stored message is the id by which the consumer confirms the message. */
export function inLane(queue: string, envelope: Envelope, delaySeconds = 0): LaneKeyMessage<Envelope> {
  const { key, tenant } = laneOfMessage(queue, envelope);
  return { key, tenant: tenant ?? undefined, body: envelope, idempotencyKey: outboxId(envelope), delaySeconds };
}
