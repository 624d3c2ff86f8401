import { defineEvent, type EventDefinition } from "millrace";
import { type FactType, type RecordedFact, recorded, recordedFactSchema, statedFactSchema } from "./fact.ts";
import { factProcessing, projections } from "./queues.ts";

/** Only its ledger can publish a recorded fact; an operator cannot correct it in a message. */
const door = { scope: null, route: "POST /v1/facts" };

/** The event that a ledger has recorded a fact, whose projection row is then stored. */
export const FactRecorded = defineEvent({
  type: "fact.recorded",
  payload: recordedFactSchema,
  subject: ({ entity }) => entity,
  queue: projections,
  door,
});

/** The event that a ledger has recorded a fact of one type, whose consequences are then processed. */
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
 * The events of facts with consequences, by the fact's type: they are also sent to the queue `fact-processing`, whose consumer defines the
 * consequences. Facts about webhooks are not delivered by webhooks.
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
 * The event that a step has observed a fact, which is then appended to its ledger. The event is emitted in the same write as the step's
 * outcome, so the fact is appended if and only if the outcome was recorded.
 */
export const FactObserved = defineEvent({
  type: "fact.observed",
  payload: statedFactSchema,
  subject: ({ entity }) => entity,
  queue: factProcessing,
  door,
});
