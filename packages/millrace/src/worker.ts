// Entry point `millrace/worker`: the exports of a Worker, the engine's own workflows, and functions for the Durable Objects of the app.

import { address } from "./contract/address.ts";
import { messageId } from "./contract/ids.ts";
import { queueFor } from "./contract/queue.ts";
import { oldestWaiting, UNKNOWN } from "./keeper/backlog.ts";
import { relay } from "./recorder/relay.ts";

export { AlertChanged } from "./alerts/notice.ts";
export { alertSender } from "./alerts/post.ts";
export { callbackSender } from "./callbacks/send-callback.ts";
export { placed } from "./contract/location.ts";
export { armKeeper, keeperOf } from "./keeper/client.ts";
export { keeper } from "./keeper/keeper.ts";
export { OPEN_LETTER_DAYS } from "./keeper/retention.ts";
export type { Retention } from "./keeper/sweep.ts";
export type { AppGauges } from "./observe/metrics/vitals.ts";
export { BulkActionRun } from "./operate/bulk/message.ts";
export { bulkAction } from "./operate/bulk/workflow.ts";
export { dispatch } from "./operate/letters/repair.ts";
export type { Check } from "./reconcile/scan.ts";
export { Recorder } from "./recorder/recorder.ts";
export { cellOf } from "./store/cells.ts";
export { type Catalog, catalog } from "./topology/catalog.ts";
export type { SkippedLetter } from "./topology/hooks.ts";
export { entrypoint } from "./workflow/entrypoint.ts";

/** Functions for a Durable Object of the app that stores its events, and sends them itself (`outbox: "sender"`). */
export const outbox = { address, messageId, queueFor, relay, oldestWaiting, unknown: UNKNOWN };
