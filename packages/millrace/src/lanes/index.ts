// Entry point `millrace/lanes`: queues that process the messages of a key in order.

export { defineLaneQueue } from "../contract/queue.ts";
export { engineLanes } from "../turns/engine-lanes.ts";
export { laneOf, sendToLanes } from "./client.ts";
export { defineLane } from "./definition.ts";
export { laneObject } from "./lane-object.ts";
