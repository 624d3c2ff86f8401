import { queueBinding, queuePrefix } from "../../contract/bindings.ts";
import { isSimulatedDeath } from "../../contract/crash-points.ts";
import { codeOf, messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { count } from "../../observe/metrics/count.ts";
import { atomically } from "../../store/d1/retry.ts";
import { expectLater } from "../../store/outbox.ts";
import { retryDelaySeconds } from "../../topology/consumer.ts";
import type { Intake, Outcome, Outcomes } from "../consumer.ts";
import { capture, type Hopeless, noted } from "./capture.ts";
import { isHopeless } from "./hopeless.ts";
import { envelopeIn } from "./letter.ts";

interface Failed {
  readonly message: Message;
  readonly error: unknown;
  /** True when a repeat cannot fix the error. */
  readonly refused: boolean;
  /** True when redelivery must never make the message a dead letter. */
  readonly unharmed: boolean;
  /** True for a failure of the engine: an error with the code `unavailable` that no route's code threw. */
  readonly isTrouble: boolean;
}

/**
 * Handles failed messages. A message becomes a dead letter here if a repeat cannot fix its error, or if the message has no try left. If
 * this function fails, the queue moves such a message to the queue's dead-letter queue. Other messages are retried, and their outbox rows
 * get the time of the redelivery, so that the keeper sends no earlier copies. Changes `outcomes`, and returns the delay in seconds of each
 * retried message. Never throws.
 */
export async function leaveBehind(intake: Intake, outcomes: Outcomes): Promise<ReadonlyMap<Message, number>> {
  const all = [...outcomes].flatMap(([message, outcome]): Failed[] => ("error" in outcome ? [failed(message, outcome)] : []));
  const { limit } = intake.consumer.retries;
  const isLast = ({ message }: Failed) => message.attempts > limit;
  const isNearlyLast = ({ message }: Failed) => message.attempts >= limit;
  const ends = all.filter((one) => one.refused || (isLast(one) && !isSimulatedDeath(one.error)));
  await endAll(intake, ends, outcomes);

  const back = all.filter(({ message }) => outcomes.get(message)?.did !== "captured" && outcomes.get(message)?.did !== "kept");
  for (const { message, error } of back) outcomes.set(message, { did: "retried", error });
  const delays = new Map(back.map(({ message }) => [message, retryDelaySeconds(intake.consumer, message.attempts)]));
  await putBack(intake, back.filter(isNearlyLast), delays, outcomes);
  const waiting = back.filter(({ message, error }) => outcomes.get(message)?.did === "retried" && !isSimulatedDeath(error));
  await expect(intake, waiting, delays);
  return delays;
}

function failed(message: Message, { did, error, unharmed, isRoutes }: Extract<Outcome, { error: unknown }>): Failed {
  const refused = did === "refused" || isHopeless(error);
  const isTrouble = codeOf(error) === "unavailable" && isRoutes !== true;
  return { message, error, refused, unharmed: !refused && (unharmed === true || isTrouble), isTrouble };
}

async function endAll(intake: Intake, ends: readonly Failed[], outcomes: Outcomes): Promise<void> {
  const given = ends.filter(({ unharmed }) => !unharmed);
  if (given.length === 0) return;
  const hopeless = given.map(({ message, error, refused }): Hopeless => ({ message, error, refused, attempts: message.attempts }));
  try {
    const fates = await capture(intake, hopeless);
    for (const [index, fate] of fates.entries()) {
      const { message } = given[index] as Failed;
      if (typeof fate === "string") outcomes.set(message, { did: fate });
      else sayNotStored(intake, fate.failed);
    }
  } catch (error) {
    sayNotStored(intake, error);
  }
}

/**
 * Logs a failure to store dead letters. The Worker cannot determine whether the consumer has a dead-letter queue, so the log line describes
 * both cases.
 */
function sayNotStored({ env, consumer: { queue } }: Intake, error: unknown): void {
  const next =
    `After its last attempt a message goes to the dead-letter queue "${queuePrefix(env)}${queue.name}-dlq". ` +
    "If the consumer has none, the platform deletes the message. To check that, run: npx millrace doctor --remote";
  logLine("error", { log: "dead_letters", queue: queue.name, stored: false, error: messageOf(error), next });
}

/**
 * While the database is overloaded, no dead letters are created. A message that has only its last try left is sent to the end of its queue
 * as a new message with all tries. A new message is needed, because the queue counts all deliveries, with any error. If the queue does not
 * accept the new message, the original message is moved to the dead-letter queue, whose consumer retries for days.
 */
async function putBack(
  { env, consumer: { queue } }: Intake,
  nearlyLast: readonly Failed[],
  delays: ReadonlyMap<Message, number>,
  outcomes: Outcomes,
): Promise<void> {
  for (const { message, unharmed } of nearlyLast) {
    if (!unharmed) continue;
    try {
      await queueBinding(env, queue.name).send(message.body, { contentType: "json", delaySeconds: delays.get(message) ?? 1 });
      count(env, "queue_messages_sent_total", { queue: queue.name });
      outcomes.set(message, { did: "put off" });
    } catch (sendError) {
      logLine("warn", { log: "put_back", queue: queue.name, error: messageOf(sendError) });
    }
  }
}

/**
 * Records the backoff of messages. A message in backoff is in no queue metric, so the keeper would otherwise treat it as lost. The record
 * also contains the error of the delivery, if the delivery counts as a try.
 */
async function expect({ env, consumer }: Intake, waiting: readonly Failed[], delays: ReadonlyMap<Message, number>): Promise<void> {
  const ours = waiting.flatMap(({ message, isTrouble }) => {
    const envelope = envelopeIn(message.body);
    const noted = envelope?.kind === "event" && envelope.outbox === undefined && !isTrouble;
    return noted ? [{ envelope, delayMs: (delays.get(message) ?? 1) * 1000 }] : [];
  });
  const failed = waiting.filter(({ unharmed }) => !unharmed);
  const statements = [...(ours.length > 0 ? [expectLater(ours)] : []), ...noted(consumer.queue.name, failed)];
  await atomically(env.DB, statements).catch((error) => logLine("warn", { log: "expect_later", error: messageOf(error) }));
}
