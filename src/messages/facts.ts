import { defineEvent, type EventDefinition } from "millrace";
import { type FactType, type RecordedFact, recorded, recordedFactSchema, statedFactSchema } from "./fact.ts";
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
function factOf<Type extends FactType>(type: Type) {
  return defineEvent<RecordedFact<Type>, `fact.${Type}`>({
    type: `fact.${type}`,
    payload: recorded(type),
    subject: ({ entity }) => entity,
    queue: factProcessing,
    door,
  });
}

/**
 * The events of facts from which something follows, by the type of the fact: they go to the queue `fact-processing` as well. What follows,
 * the consumer of that queue says. Facts about webhooks trigger no webhooks.
 */
export const PROCESSED_EVENTS = {
  outcome: factOf("outcome"),
  charge: factOf("charge"),
  payout: factOf("payout"),
  contact_merged: factOf("contact_merged"),
  reconciliation: factOf("reconciliation"),
} satisfies { [Type in FactType]?: EventDefinition<RecordedFact<Type>, `fact.${Type}`> };

type ProcessedType = keyof typeof PROCESSED_EVENTS;
export const PROCESSED = Object.keys(PROCESSED_EVENTS) as [ProcessedType, ...ProcessedType[]];

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
