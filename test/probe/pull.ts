import { definePullQueue, type PullLetter } from "millrace";
import { pullObject } from "millrace/worker";

/** The handler of a tenant's dead letters. */
export const pullLetterTakers = new Map<string, (letter: PullLetter) => unknown>();

/** Two retries, no wait between them; dead letters are handed over. */
export const renders = definePullQueue({
  name: "renders",
  retries: { limit: 2 },
  visibility: "1 hour",
  onDeadLetter: (letter) => pullLetterTakers.get(letter.tenant)?.(letter),
});
/** Dead letters of it are the engine's. */
export const keepings = definePullQueue({ name: "keepings", retries: { limit: 0 }, retention: "1 minute", remember: "1 minute" });
/** Pulled with its own scope. */
export const guarded = definePullQueue({ name: "guarded", scope: "operate" });
/** One retry; dead letters of it are the engine's. */
export const plain = definePullQueue({ name: "plain", retries: { limit: 1 } });
/** Declared, and in no object's list. */
export const unlisted = definePullQueue({ name: "unlisted" });

/** Asked for over HTTP, and in no object's list. */
export const halfListed = definePullQueue({ name: "half-listed" });

export const pullQueues = [renders, keepings, guarded, plain];

export class PullQueues extends pullObject(pullQueues) {}

/** The same in a Worker that has nothing else of the engine. */
export class AlonePullQueues extends pullObject(pullQueues) {
  constructor(ctx: DurableObjectState, _env: never) {
    super(ctx, {} as never);
  }
}
