import type { Envelope } from "../contract/envelope.ts";
import type { LaneHead, LaneLook } from "../lanes/look.ts";
import type { LaneStanding } from "../lanes/turns-stub.ts";
import type { Places } from "./places.ts";

/** A lane's state, with the instances for which the lane waits. */
export function standingOf({ oldestAt, ...look }: LaneLook, places: Places | undefined, messageOf: () => Partial<Envelope>): LaneStanding {
  const ahead = (places?.all ?? []).map(({ id, since, failed }) => ({ instance_id: id, since, failed }));
  const head = look.head && named(look.head, messageOf());
  const standing: LaneStanding = { ...look, oldest_at: oldestAt, head, ahead };
  if (look.state === "paused" || look.state === "held" || look.state === "unknown") return standing;
  const failed = ahead.find((one) => one.failed !== null);
  const itsFailure = failed && `the failed instance ${failed.instance_id}: ${failed.failed}`;
  if (places?.held) return { ...standing, state: "held", why: `It waits for an operator, after ${itsFailure ?? "a failed instance."}` };
  if (!head || !places || places.room > 0) return standing;
  const waitsFor = itsFailure ?? `the running instance ${ahead[0]?.instance_id}.`;
  return { ...standing, state: "waiting", why: `It waits for ${waitsFor}` };
}

/**
 * Replaces the digest that a lane stores as the key of its head message. The result has the message's type and idempotency key, which its
 * instance and its dead letter have too.
 */
function named(head: LaneHead, { message_type, idempotency_key }: Partial<Envelope>): LaneStanding["head"] {
  const { id, idempotencyKey, sentAt, attempts, error, nextAt } = head;
  const names = { type: message_type ?? null, idempotency_key: idempotency_key ?? idempotencyKey };
  return { id, ...names, sent_at: sentAt, attempts, error, next_at: nextAt };
}
