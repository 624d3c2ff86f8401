// Entry point `millrace/pull`: queues that external programs lease messages from.

export { definePullQueue } from "./definition.ts";
export { pullObject } from "./pull-object.ts";
export { pullQueueOf } from "./stub.ts";
