import { defineLane, type LaneDefinition, type LaneLetter } from "millrace";
import { laneObject } from "millrace/worker";

/** What a test writes in a message for its handler. */
export interface LaneBody {
  n: number;
  note?: string;
}

type Batch = MessageBatch<LaneBody>;

/** What each lane's handler does, by the text before the first dash of its key's messages' note; default: it acknowledges. */
export const handlers = new Map<string, (batch: Batch, ctx: ExecutionContext) => unknown>();
/** What was handed over as dead, and what takes it, by the lane's key. */
export const letterTakers = new Map<string, (letter: LaneLetter<LaneBody>) => unknown>();

const handle: LaneDefinition<LaneBody>["queue"] = async (batch, _env, ctx) => {
  const name = batch.messages[0]?.body.note ?? "";
  await handlers.get(name)?.(batch, ctx);
};

const shared = { queue: handle, retries: { initial: 20, max: 80 }, onDeadLetter: take } as const;

async function take(letter: LaneLetter<LaneBody>): Promise<void> {
  await letterTakers.get(letter.key)?.(letter);
}

export const blocking = defineLane<LaneBody>({ ...shared, name: "blocking", onFailure: "block" });
export const parking = defineLane<LaneBody>({ ...shared, name: "parking", onFailure: "park" });
export const holding = defineLane<LaneBody>({ ...shared, name: "holding", onFailure: "hold" });
/** A handler of it that hangs has a tenth of a second. */
export const impatient = defineLane<LaneBody>({ ...shared, name: "impatient", onFailure: "hold", deadline: 100, retries: { limit: 0 } });
/** Letters of it stay where they are. */
export const keeping = defineLane<LaneBody>({ name: "keeping", queue: handle, onFailure: "park", retries: { limit: 0 }, remember: 50 });
/** Declared, and in no object's list. */
export const unlisted = defineLane<LaneBody>({ ...shared, name: "holdin", onFailure: "block" });

export class Lanes extends laneObject([blocking, parking, holding, impatient, keeping]) {}
