import type { Envelope } from "../../contract/envelope.ts";
import { rowChunks } from "../../contract/sql.ts";
import { reusedAmong } from "../../signals/assign.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { type DeadLetter, insertDeadLetters } from "../../store/dead-letters.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import type { Acceptance } from "../accept/accept.ts";
import { keyReused, sameWork } from "../accept/reuse.ts";
import type { Intake } from "../consumer.ts";
import { byIdentity } from "../identity.ts";
import { noteCaptured } from "../letters/captured.ts";
import { deadLetter } from "../letters/letter.ts";
import type { Plan, Written } from "./plan.ts";

/**
 * Captures instances, commands and awaited events that the database did not accept, because their key belongs to a message with a different
 * payload. Returns the captured messages.
 */
export async function captureReused(intake: Intake, group: readonly Plan[], written: Written): Promise<ReadonlySet<object>> {
  const { taken, sent } = written;
  const repeated = group.flatMap((plan) => [
    ...plan.instances.filter((one) => !taken.has(one)).map((one) => ({ one, plan })),
    ...plan.commands.filter((one) => !sent.has(one)).map((one) => ({ one, plan })),
  ]);
  return new Set<object>([...(await captureCommands(intake, repeated)), ...(await captureEvents(intake, group, written.kept))]);
}

/**
 * The messages without an inserted row are repeats of known commands, repeats of pruned keys, or key reuses. A query distinguishes these
 * cases. The query runs only if such messages exist, so that the usual batch needs no extra query.
 */
async function captureCommands(intake: Intake, repeated: readonly { one: Acceptance; plan: Plan }[]): Promise<ReadonlySet<Acceptance>> {
  if (repeated.length === 0) return new Set();
  const { env, catalog, consumer, takenAt } = intake;
  const known = await query<{ id: string; fingerprint: string }>(env.DB, selectKnown(repeated.map(({ one }) => one.id)));
  const own = byIdentity(known);
  const others = repeated.filter(({ one }) => !own.has(one));
  const same = await sameWork(
    env,
    catalog,
    others.map(({ one }) => one),
  );
  const reused = others.filter(({ one }) => !same.has(one));
  const letters = reused.map(({ one, plan: { message, envelope } }): Captured => {
    // A command that follows from an event is captured in the form in which it would have been sent. An event that starts an
    // instance keeps its `replay` field, because a replay is a different message.
    const body = one.envelope.kind === envelope.kind ? message.body : one.envelope;
    const given = { queue: one.queue ?? consumer.queue.name, body, attempts: message.attempts, firstAt: message.timestamp.getTime() };
    const letter = deadLetter({ ...given, error: keyReused(one.envelope) });
    return body === message.body ? { letter, delivery: message, takenAt } : { letter, delivery: { id: message.id, body } };
  });
  await capture(intake, letters);
  return new Set(reused.map(({ one }) => one));
}

/**
 * Captures events whose key is stored with a different payload, because no wait would receive such an event. An operator decides about each
 * captured event.
 */
async function captureEvents(intake: Intake, group: readonly Plan[], kept: readonly Envelope[]): Promise<ReadonlySet<Envelope>> {
  const { env, consumer, takenAt } = intake;
  const anew = new Set(kept);
  const repeated = group.filter(({ signal, envelope }) => signal && !anew.has(envelope));
  const reused = await reusedAmong(
    env,
    repeated.map(({ envelope }) => envelope),
  );
  const letters = repeated
    .filter(({ envelope }) => reused.has(envelope))
    .map(({ message, envelope }): Captured => {
      const { body, attempts, timestamp } = message;
      const letter = deadLetter({ queue: consumer.queue.name, body, attempts, firstAt: timestamp.getTime(), error: keyReused(envelope) });
      return { letter, delivery: message, takenAt };
    });
  await capture(intake, letters);
  return reused;
}

/** A dead letter and the time of the delivery that failed. */
interface Captured {
  readonly letter: DeadLetter;
  readonly delivery: Pick<Message, "id" | "body">;
  /** The time of the failed delivery; undefined for a command that was never delivered. */
  readonly takenAt?: number | undefined;
}

async function capture(intake: Intake, captured: readonly Captured[]): Promise<void> {
  await atomically(
    intake.env.DB,
    rowChunks(captured.map(({ letter }) => letter)).map((chunk) => insertDeadLetters(chunk)),
  );
  for (const { letter, delivery, takenAt } of captured) noteCaptured({ ...intake, takenAt }, letter, delivery, letter.attempts);
}
