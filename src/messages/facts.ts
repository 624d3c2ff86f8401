import { defineEvent } from "millrace";
import { type FactType, type RecordedFact, recorded, recordedFactSchema, statedFactSchema } from "./fact.ts";
import { factProcessing, projections } from "./queues.ts";

/** Only the fact's ledger can publish a recorded fact. An operator cannot correct a fact in a message. */
const access = { scope: null, route: "POST /v1/facts" };

/** The event that a ledger has recorded a fact, whose projection row is then stored. */
export const FactRecorded = defineEvent({
  type: "fact.recorded",
  payload: recordedFactSchema,
  subject: ({ entity }) => entity,
  queue: projections,
  access,
});

/** The event that a ledger has recorded a fact of one type. The consequences of the fact are then processed. */
function factOf<Type extends FactType>(type: Type) {
  return defineEvent<RecordedFact<Type>, `fact.${Type}`>({
    type: `fact.${type}`,
    payload: recorded(type),
    subject: ({ entity }) => entity,
    queue: factProcessing,
    access,
  });
}

/**
 * The events of facts with consequences, by the fact's type. These events are also sent to the queue `fact-processing`, whose consumer
 * defines the consequences. No webhook delivers the facts about webhooks.
 */
export const PROCESSED_EVENTS = {
  outcome: factOf("outcome"),
  charge: factOf("charge"),
  payout: factOf("payout"),
  contact_merged: factOf("contact_merged"),
  reconciliation: factOf("reconciliation"),
} satisfies { [Type in FactType]?: ReturnType<typeof factOf<Type>> };

type ProcessedType = keyof typeof PROCESSED_EVENTS;
export const PROCESSED = Object.keys(PROCESSED_EVENTS) as [ProcessedType, ...ProcessedType[]];

/**
 * The event that a step has observed a fact. The fact is then appended to its ledger. The event is emitted in the same write as the step's
 * outcome, so the fact is appended if and only if the step's outcome was recorded.
 */
export const FactObserved = defineEvent({
  type: "fact.observed",
  payload: statedFactSchema,
  subject: ({ entity }) => entity,
  queue: factProcessing,
  access,
});
