import { defineEvent } from "millrace";
import { type PROCESSED, type RecordedFact, recorded, recordedFactSchema, statedFactSchema } from "./fact.ts";
import { factProcessing, projections } from "./queues.ts";

/** What is said of a fact is its ledger's word: nobody corrects it behind the ledger's back. */
const door = { scope: null, route: "POST /v1/facts" };

/** A ledger has taken a fact: keep its row. */
export const FactRecorded = defineEvent({
  type: "fact.recorded",
  payload: recordedFactSchema,
  subject: ({ entity }) => entity,
  queue: projections,
  door,
});

/** A ledger has taken a fact of this type: work out what follows. */
function factOf<Type extends (typeof PROCESSED)[number]>(type: Type) {
  return defineEvent<RecordedFact<Type>, `fact.${Type}`>({
    type: `fact.${type}`,
    payload: recorded(type),
    subject: ({ entity }) => entity,
    queue: factProcessing,
    door,
  });
}

export const OutcomeFact = factOf("outcome");
export const ChargeFact = factOf("charge");
export const PayoutFact = factOf("payout");
export const ContactMergedFact = factOf("contact_merged");
export const ReconciliationFact = factOf("reconciliation");

/**
 * A step has seen something that is a fact: append it to its ledger. Emitted with the step's outcome in one atomic write, it is appended if
 * and only if that outcome was recorded.
 */
export const FactObserved = defineEvent({
  type: "fact.observed",
  payload: statedFactSchema,
  subject: ({ entity }) => entity,
  queue: factProcessing,
  door,
});
