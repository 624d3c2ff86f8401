// Entry point `millrace/pull`: queues that external programs lease messages from.

export { pullQueueOf } from "./client.ts";
export { definePullQueue } from "./definition.ts";
export { pullObject } from "./pull-object.ts";
