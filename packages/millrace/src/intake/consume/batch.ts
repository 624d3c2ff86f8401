import { assertReady } from "../../contract/bindings.ts";
import { isSimulatedDeath } from "../../contract/crash-points.ts";
import { MillraceError, readable } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { laneIn } from "../../contract/queue.ts";
import { among, sql } from "../../contract/sql.ts";
import { within } from "../../contract/within.ts";
import { causeOf, noteDelivery, noteTaken } from "../../observe/deliveries.ts";
import { countBatch } from "../../observe/metrics/runs.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { confirm } from "../../store/outbox.ts";
import type { ConsumerDefinition } from "../../topology/consumer.ts";
import { confirmToSenders } from "../../topology/hooks.ts";
import { hideIn } from "../../topology/marks.ts";
import type { Intake, Outcomes } from "../consumer.ts";
import { leaveBehind } from "../letters/leave.ts";
import { leaveInLane } from "../letters/leave-in-lane.ts";
import { envelopeIn, letterId, textField } from "../letters/letter.ts";

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

/**
 * A message whose age in milliseconds is below this limit has no older copy that an operator could have settled. Therefore the first
 * delivery of such a message needs no query.
 */
const YOUNG_MS = 60_000;
/** Maximum time by which a sender's clock is ahead, in milliseconds. */
const CLOCK_SKEW_MS = 5000;

/**
 * Returns the messages whose dead letter an operator has skipped or has replayed as a new message. Remaining copies of these messages in
 * queues and outboxes have no effect, even after a deployment that could process them. The function confirms these messages in their
 * outboxes again.
 */
async function settledBefore({ env, consumer: { queue }, catalog }: Intake, messages: readonly Message[]): Promise<ReadonlySet<Message>> {
  const old = messages.flatMap((message) => {
    // The first delivery of a young message is skipped here, so that the usual message is not parsed twice.
    if (message.attempts === 1 && isYoung(textField(message.body, "created_at"))) return [];
    const envelope = envelopeIn(message.body);
    return envelope === undefined ? [] : [{ message, envelope, letter: letterId(queue.name, envelope) }];
  });
  if (old.length === 0) return new Set();
  const rows = await query<{ id: string }>(
    env.DB,
    sql`
      SELECT id FROM millrace_dead_letters
      WHERE id IN ${among(old.map(({ letter }) => letter))} AND +state IN ('replayed', 'skipped')`,
  );
  const settled = new Set(rows.map(({ id }) => id));
  const copies = old.filter(({ letter }) => settled.has(letter));
  if (copies.length === 0) return new Set();
  const envelopes = copies.map(({ envelope }) => envelope);
  await atomically(env.DB, confirm(envelopes));
  await confirmToSenders(catalog.hooks, env, envelopes);
  return new Set(copies.map(({ message }) => message));
}

/**
 * True for a message created moments ago. A message with a creation date in the future is not young, because such a date is a sender's
 * mistake.
 */
function isYoung(createdAt: string | null): boolean {
  const age = Date.now() - Date.parse(createdAt ?? "");
  return age > -CLOCK_SKEW_MS && age < YOUNG_MS;
}
