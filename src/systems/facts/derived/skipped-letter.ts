import { type Draft, texts } from "millrace";
import type { SkippedLetter } from "millrace/worker";
import { FactObserved } from "../../../messages/facts.ts";

/** Publishes a skipped dead letter as a fact, so that the ledger records the skipped message, the reason, and the operator who decided. */
export function skippedLetterFact({ id, queue, messageType, idempotencyKey, reason, because, actor, at }: SkippedLetter): Draft[] {
  const payload = {
    about: `dead-letter/${id}`,
    note: texts.beginning(because, 1000),
    message_type: messageType,
    idempotency_key: idempotencyKey,
    reason,
    actor,
  };
  const head = { fact_id: `skip/${id}`, entity: `queue/${queue}`, occurred_at: at.toISOString() };
  return [FactObserved.from({ ...head, type: "reconciliation", subtype: "skipped_dead_letter", payload })];
}
