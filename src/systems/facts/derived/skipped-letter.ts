import { beginning, type Draft } from "millrace";
import type { SkippedLetter } from "millrace/worker";
import { FactObserved } from "../../../messages/facts.ts";

/**
 * A dead letter that was given up is stated as a fact, also where nobody looked after it: the books say what was never done, why, and who
 * decided it.
 */
export function skippedLetterFact({ id, queue, messageType, idempotencyKey, reason, because, actor, at }: SkippedLetter): Draft[] {
  const payload = {
    about: `dead-letter/${id}`,
    note: beginning(because, 1000),
    message_type: messageType,
    idempotency_key: idempotencyKey,
    reason,
    actor,
  };
  const head = { fact_id: `skip/${id}`, entity: `queue/${queue}`, occurred_at: at.toISOString() };
  return [FactObserved.from({ ...head, type: "reconciliation", subtype: "skipped_dead_letter", payload })];
}
