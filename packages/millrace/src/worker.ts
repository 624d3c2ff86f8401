// Entry point `millrace/worker`: the exports of a Worker, and functions for the Durable Objects of the app.

export type { AlertChanges } from "./alerts/rule.ts";
export { address } from "./contract/address.ts";
export { messageId } from "./contract/ids.ts";
export { placed } from "./contract/location.ts";
export { queueFor } from "./contract/queue.ts";
export { Counter } from "./counters/counter.ts";
export { oldestWaiting, UNKNOWN } from "./keeper/backlog.ts";
export { armKeeper, keeperOf } from "./keeper/client.ts";
export { keeper } from "./keeper/keeper.ts";
export { OPEN_LETTER_DAYS } from "./keeper/retention.ts";
export type { Retention, Slice } from "./keeper/rule.ts";
export { type LaneObject, laneObject } from "./lanes/lane-object.ts";
export { RateLimit } from "./limits/rate-limit.ts";
export { Lock } from "./locks/lock.ts";
export type { AppGauges } from "./observe/metrics/vitals.ts";
export { dispatch } from "./operate/dispatch.ts";
export { pullObject } from "./pull/pull-object.ts";
export type { Check, Checked, Divergence } from "./reconcile/check.ts";
export { Recorder } from "./recorder/recorder.ts";
export { relay } from "./recorder/relay.ts";
export { roomObject } from "./rooms/room-object.ts";
export type { Outgoing } from "./store/outbox.ts";
export { type Catalog, catalog } from "./topology/catalog.ts";
export type { SkippedLetter } from "./topology/hooks.ts";
export { engineLanes } from "./turns/engine-lanes.ts";
export { entrypoint, runs } from "./workflow/entrypoint.ts";
