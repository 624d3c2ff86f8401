import { definePullQueue, pullObject } from "millrace/pull";

/** Handlers of dead letters, by tenant. */
export const pullLetterTakers = new Map<
  string,
  (letter: Parameters<NonNullable<Parameters<typeof definePullQueue>[0]["onDeadLetter"]>>[0]) => unknown
>();

/** A pull queue with two retries without a delay; a handler of the test receives its dead letters. */
export const renders = definePullQueue({
  name: "renders",
  retries: { limit: 2 },
  visibility: "1 hour",
  onDeadLetter: (letter) => pullLetterTakers.get(letter.tenant)?.(letter),
});
/** A pull queue without retries; the engine stores its dead letters. */
export const keepings = definePullQueue({ name: "keepings", retries: { limit: 0 }, retention: "1 minute", remember: "1 minute" });
/** A pull queue with consumers that need the scope `operate`. */
export const guarded = definePullQueue({ name: "guarded", scope: "operate" });
/** A pull queue with one retry; the engine stores its dead letters. */
export const plain = definePullQueue({ name: "plain", retries: { limit: 1 } });
/** A pull queue that no Durable Object lists. */
export const unlisted = definePullQueue({ name: "unlisted" });

/** A pull queue that the HTTP routes serve and no Durable Object lists. */
export const halfListed = definePullQueue({ name: "half-listed" });

export const pullQueues = [renders, keepings, guarded, plain];

export class PullQueues extends pullObject(pullQueues) {}

/** An object of pull queues in a Worker without any other binding of the engine. */
export class AlonePullQueues extends pullObject(pullQueues) {
  constructor(ctx: DurableObjectState, _env: never) {
    super(ctx, {} as never);
  }
}
