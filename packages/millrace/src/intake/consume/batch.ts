import { assertReady } from "../../contract/bindings.ts";
import { isSimulatedDeath } from "../../contract/crash-points.ts";
import { MillraceError, readable } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { laneIn } from "../../contract/queue.ts";
import { within } from "../../contract/within.ts";
import { causeOf, noteDelivery, noteTaken } from "../../observe/deliveries.ts";
import { countBatch } from "../../observe/metrics/runs.ts";
import type { ConsumerDefinition } from "../../topology/consumer.ts";
import { hideIn } from "../../topology/marks.ts";
import type { Intake, Outcomes } from "../consumer.ts";
import { leaveBehind } from "../letters/leave.ts";
import { leaveInLane } from "../letters/leave-in-lane.ts";
import { settledBefore } from "./settled.ts";

type BatchIntake = Intake & { readonly takenAt: number };

/**
 * Handles a delivered batch. The function skips messages that an operator has settled, runs `take` to determine each message's outcome,
 * captures dead letters, and acknowledges or retries each message. Returns the outcomes of the messages. The function never throws, because
 * a queue handler that throws loses its acknowledgements.
 */
export async function handleBatch(
  intake: BatchIntake,
  batch: MessageBatch,
  take: (messages: readonly Message[], outcomes: Outcomes) => Promise<void>,
): Promise<Outcomes> {
  const outcomes: Outcomes = new Map();
  noteTaken(intake.env, batch.messages);
  try {
    assertReady(intake.env);
    const settled = await settledBefore(intake, batch.messages);
    for (const message of settled) outcomes.set(message, { did: "settled" });
    const rest = batch.messages.filter((message) => !settled.has(message));
    await within(take(rest, outcomes), intake.consumer.deadlineMs, () => tooLong(intake.consumer));
  } catch (error) {
    if (isSimulatedDeath(readable(error))) outcomes.clear();
    for (const message of batch.messages) if (!outcomes.has(message)) outcomes.set(message, { did: "retried", error });
  }
  for (const [message, outcome] of outcomes) if ("error" in outcome) outcomes.set(message, { ...outcome, error: readable(outcome.error) });
  const isLane = laneIn(intake.consumer.queue.name) !== undefined;
  const delays = isLane ? await leaveInLane(intake, outcomes) : await leaveBehind(intake, outcomes);
  settle(intake, batch, outcomes, delays);
  countBatch(intake.env, {
    queue: intake.consumer.queue.name,
    messages: batch.messages,
    outcomes: batch.messages.map((message) => outcomes.get(message)?.did ?? "retried"),
    beganAt: intake.takenAt,
    isKnown: (type) => intake.catalog.kindsOf(type).length > 0,
  });
  return outcomes;
}

/**
 * The error of messages that the batch did not accept within its time limit. Such messages are redelivered, and this error never makes a
 * message a dead letter.
 */
function tooLong({ queue, deadlineMs }: ConsumerDefinition): MillraceError {
  return new MillraceError(
    "unavailable",
    `The batch of ${queue.name} reached its time limit of ${deadlineMs / 1000} s: its remaining messages are redelivered. Make its batches smaller, or the code of its routes faster.`,
  );
}

/**
 * Acknowledges or retries each message. Durably stored messages are acknowledged. All other messages are retried after the backoff of their
 * queue or lane.
 */
function settle(
  { env, catalog, consumer: { queue }, takenAt }: BatchIntake,
  batch: MessageBatch,
  outcomes: Outcomes,
  delays: ReadonlyMap<Message, number> | undefined,
): void {
  const counts: Record<string, number> = {};
  for (const message of batch.messages) {
    const outcome = outcomes.get(message);
    const did = outcome?.did ?? "retried";
    counts[did] = (counts[did] ?? 0) + 1;
    if (did === "retried") message.retry(delays && { delaySeconds: delays.get(message) ?? 1 });
    else message.ack();
    // A captured message is logged separately.
    if (did === "captured" || did === "refused") continue;
    const hide = hideIn(catalog, queue.name, message.body);
    const why = outcome && "error" in outcome ? causeOf(outcome.error, hide) : {};
    noteDelivery(env, { queue: queue.name, message, attempt: message.attempts, outcome: did, takenAt, hide, ...why });
  }
  // A batch of a single message needs no summary, because the message has a log line of its own.
  if (batch.messages.length > 1) logLine("info", { log: "batch", queue: queue.name, messages: batch.messages.length, ...counts });
}
