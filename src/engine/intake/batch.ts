import { isSimulatedDeath } from "../contract/crash-points.ts";
import { codeOf, messageOf, readable } from "../contract/errors.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import type { Intake, Outcomes } from "./consumer.ts";
import { leaveBehind } from "./leave.ts";
import { settledBefore } from "./settled.ts";

/**
 * Handles a delivered batch: leaves out what an operator has settled, lets `take` say what became of each message, ends the way of those
 * that go no further, and settles each by itself. It never throws: a handler that throws loses the settlements it made.
 */
export async function handleBatch(
  intake: Intake,
  batch: MessageBatch,
  take: (messages: readonly Message[], outcomes: Outcomes) => Promise<void>,
): Promise<void> {
  const outcomes: Outcomes = new Map();
  try {
    const settled = await settledBefore(intake, batch.messages);
    for (const message of settled) outcomes.set(message, { did: "settled" });
    await take(
      batch.messages.filter((message) => !settled.has(message)),
      outcomes,
    );
  } catch (error) {
    if (isSimulatedDeath(readable(error))) outcomes.clear();
    for (const message of batch.messages) if (!outcomes.has(message)) outcomes.set(message, { did: "retried", error });
  }
  for (const [message, outcome] of outcomes) if ("error" in outcome) outcomes.set(message, { ...outcome, error: readable(outcome.error) });
  const delays = await leaveBehind(intake, outcomes);
  settle(batch, intake.queue, outcomes, delays);
}

/** Settles each message by itself: what is durable is acknowledged, the rest comes back after its queue's back-off. */
function settle(batch: MessageBatch, queue: QueueDefinition, outcomes: Outcomes, delays: ReadonlyMap<Message, number>): void {
  const counts: Record<string, number> = {};
  for (const message of batch.messages) {
    const outcome = outcomes.get(message);
    const did = outcome?.did ?? "retried";
    counts[did] = (counts[did] ?? 0) + 1;
    if (did === "retried") message.retry({ delaySeconds: delays.get(message) ?? 1 });
    else message.ack();
    if (did === "retried" || did === "captured" || did === "settled") {
      const error = outcome && "error" in outcome ? { code: codeOf(outcome.error), error: messageOf(outcome.error).slice(0, 1000) } : {};
      console.warn(JSON.stringify({ log: "delivery", queue: queue.name, ...named(message), outcome: did, ...error }));
    }
  }
  console.log(JSON.stringify({ log: "batch", queue: queue.name, messages: batch.messages.length, ...counts }));
}

/** What a log line may say of a message: names, never its payload. What nobody has checked may be anything, so only texts are said, and those not whole. */
function named(message: Message): Record<string, unknown> {
  const body = (typeof message.body === "object" && message.body !== null ? message.body : {}) as Record<string, unknown>;
  const said = NAMES.flatMap((name) => (typeof body[name] === "string" ? [[name, body[name].slice(0, MAX_NAME_CHARACTERS)]] : []));
  return { delivery_id: message.id, attempt: message.attempts, ...Object.fromEntries(said) };
}

const NAMES = ["correlation_id", "idempotency_key", "message_type", "subject"];
const MAX_NAME_CHARACTERS = 200;
