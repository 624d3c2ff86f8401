import { defineLane, type LaneDefinition, type LaneLetter } from "millrace";
import { orderChanges } from "../docs/examples/lane.ts";

/** A test's message: a number, and the key of its lane, by which its handler is found. */
export interface LaneBody {
  n: number;
  note?: string;
}

/** Each lane's handler, by the lane's key; default: nothing, which acknowledges. */
export const handlers = new Map<string, (batch: MessageBatch<LaneBody>, ctx: ExecutionContext) => unknown>();
/** Each lane's handler of dead letters, by its key; default: nothing, which accepts them. */
export const letterTakers = new Map<string, (letter: LaneLetter<LaneBody>) => unknown>();

const queue: LaneDefinition<LaneBody>["queue"] = async (batch, _env, ctx) => {
  await handlers.get(batch.messages[0]?.body.note ?? "")?.(batch, ctx);
};
const onDeadLetter = (letter: LaneLetter<LaneBody>) => letterTakers.get(letter.key)?.(letter);

const shared = { queue, onDeadLetter, retries: { initial: 5, max: 20 } };

export const blocking = defineLane<LaneBody>({ ...shared, name: "blocking", onFailure: "block" });
export const parking = defineLane<LaneBody>({ ...shared, name: "parking", onFailure: "park" });
export const holding = defineLane<LaneBody>({ ...shared, name: "holding", onFailure: "hold" });
/** With a lane's default back-off, deadline and memory. */
export const usual = defineLane<LaneBody>({ name: "usual", queue, onFailure: "block" });
/** A handler that hangs has a tenth of a second. */
export const impatient = defineLane<LaneBody>({ ...shared, name: "impatient", onFailure: "park", deadline: 100 });
/** Dead letters of it stay in the lane, keys expire soon, and it is soon full. */
export const small = defineLane<LaneBody>({
  ...{ name: "small", queue, onFailure: "park", retries: { limit: 0 } },
  ...{ remember: 50, maxBytes: 200_000 },
});
/** In no object's list. */
export const misspelt = defineLane<LaneBody>({ ...shared, name: "holdin", onFailure: "block" });

export const ownLanes = [blocking, parking, holding, usual, impatient, small, orderChanges];
