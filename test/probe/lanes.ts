import { defineLane } from "millrace/lanes";
import { orderChanges } from "../docs/examples/lane.ts";

type Options = Parameters<typeof defineLane<LaneBody>>[0];
type LaneLetter = Parameters<NonNullable<Options["onDeadLetter"]>>[0];

/** The body of a test's message: a number, and the lane's key, which selects the handler. */
export interface LaneBody {
  n: number;
  note?: string;
}

/** Each lane's handler, by the lane's key. A lane without a handler acknowledges its messages. */
export const handlers = new Map<string, (batch: MessageBatch<LaneBody>, ctx: ExecutionContext) => unknown>();
/** Each lane's handler of dead letters, by the lane's key. A lane without a handler accepts its dead letters. */
export const letterTakers = new Map<string, (letter: LaneLetter) => unknown>();

const queue: Options["queue"] = async (batch, _env, ctx) => {
  await handlers.get(batch.messages[0]?.body.note ?? "")?.(batch, ctx);
};
const onDeadLetter = (letter: LaneLetter) => letterTakers.get(letter.key)?.(letter);

const shared = { queue, onDeadLetter, retries: { initial: 5, max: 20 } };

export const blocking = defineLane<LaneBody>({ ...shared, name: "blocking", onFailure: "block" });
export const parking = defineLane<LaneBody>({ ...shared, name: "parking", onFailure: "park" });
export const holding = defineLane<LaneBody>({ ...shared, name: "holding", onFailure: "hold" });
/** A lane with the default back-off, deadline and memory of keys. */
export const usual = defineLane<LaneBody>({ name: "usual", queue, onFailure: "block" });
/** A lane with a deadline of 100 ms for each call of its handler. */
export const impatient = defineLane<LaneBody>({ ...shared, name: "impatient", onFailure: "park", deadline: 100 });
/** A lane of at most 200 KB. It stores its own dead letters and remembers a key for 50 ms after its message is done. */
export const small = defineLane<LaneBody>({
  ...{ name: "small", queue, onFailure: "park", retries: { limit: 0 } },
  ...{ remember: 50, maxBytes: 200_000 },
});
/** A lane that no Durable Object lists. */
export const misspelt = defineLane<LaneBody>({ ...shared, name: "holdin", onFailure: "block" });

export const ownLanes = [blocking, parking, holding, usual, impatient, small, orderChanges];
