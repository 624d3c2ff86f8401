// Entry point `millrace`: definitions of messages, steps, workflows, queues and consumers, and the functions that their code calls.

export { AlertChanged, type AlertNotice } from "./alerts/notice.ts";
export { alertSender } from "./alerts/send-alert.ts";
export { callbackSender } from "./callbacks/send-callback.ts";
export type { EngineEnv } from "./contract/bindings.ts";
export { chosenName } from "./contract/chosen-name.ts";
export type { Duration } from "./contract/duration.ts";
export { type Envelope, firstOf, issuesIn, issuesOf } from "./contract/envelope.ts";
export {
  codeOf,
  type ErrorCode,
  type ErrorDetail,
  type Issue,
  inProgress,
  MillraceError,
  messageOf,
  notRetryable,
  retryAfter,
  upstreamRefused,
} from "./contract/errors.ts";
export { digest, fingerprintOf, instanceId, signed } from "./contract/ids.ts";
export { assertBounded, byteLength, parseBounded } from "./contract/limits.ts";
export { logLine } from "./contract/log-line.ts";
export { type Draft, defineCommand, defineEvent, type EventDefinition, type MessageDefinition } from "./contract/message.ts";
export { nearest } from "./contract/nearest.ts";
export { defineLaneQueue, defineQueue, MAX_DELAY_SECONDS } from "./contract/queue.ts";
export { retryAfterMs } from "./contract/retry-after.ts";
export { sensitive } from "./contract/sensitive.ts";
export { among, type Fragment, fragment, now, type RowStatement, rowChunks, type SqlValue, type Statement, sql } from "./contract/sql.ts";
export type { StepMode } from "./contract/step-mode.ts";
export { beginning, characterCount } from "./contract/text.ts";
export { newTrace, nextHop, type SaidTrace, type TraceContext, traceHeaders, traceIdOf } from "./contract/trace.ts";
export { type CounterEnv, counterOf } from "./counters/client.ts";
export {
  type Commit,
  DEFAULT_RETRIES,
  type Done,
  defineStep,
  type EffectCall,
  type EffectClass,
  type Reporting,
  type Retries,
  type StepDefinition,
  type Writes,
} from "./guard/step.ts";
export { type Accepted, enqueue, enqueueOne, type Requester } from "./intake/accept/enqueue.ts";
export { stateEvents } from "./intake/accept/state.ts";
export { type LaneMessage, laneOf, sendToLanes } from "./lanes/client.ts";
export { defineLane, type LaneDefinition, type LaneLetter, type OnFailure } from "./lanes/definition.ts";
export type { LaneSent } from "./lanes/storage.ts";
export type { LaneEnv } from "./lanes/stub.ts";
export type { TokenBucket } from "./limits/bucket.ts";
export { type Limit, type LimitEnv, limitOf } from "./limits/client.ts";
export type { Window } from "./limits/windows.ts";
export { type LockEnv, type LockOptions, tryLock, withLock } from "./locks/client.ts";
export { type MillraceOptions, millrace } from "./millrace.ts";
export { tracedCall } from "./observe/traces/call.ts";
export { BulkActionRun } from "./operate/bulk/message.ts";
export { bulkAction } from "./operate/bulk/workflow.ts";
export { pullQueueOf } from "./pull/client.ts";
export { definePullQueue, PULL_SCOPE, type PullLetter, type PullQueueDefinition } from "./pull/definition.ts";
export type { PullMessage } from "./pull/message.ts";
export type { PullEnv } from "./pull/stub.ts";
export { roomOf } from "./rooms/client.ts";
export { defineRoom, type RoomDefinition } from "./rooms/definition.ts";
export type { RoomFrame } from "./rooms/frames.ts";
export type { RoomMessage } from "./rooms/history.ts";
export type { RoomEnv } from "./rooms/stub.ts";
export { roomTicket } from "./rooms/ticket.ts";
export { namedBatch } from "./store/d1/named.ts";
export { atomically, query } from "./store/d1/retry.ts";
export { isTransient } from "./store/d1/trouble.ts";
export type { Outcome } from "./topology/bulk-verb.ts";
export { type ConsumerDefinition, defineConsumer } from "./topology/consumer.ts";
export { type BulkCall, defineBulkVerb } from "./topology/define-bulk-verb.ts";
export type { Repair, RepairableLetter } from "./topology/repairs.ts";
export {
  call,
  type EventListener,
  on,
  project,
  type Route,
  type Routed,
  type Sent,
  send,
  sendEach,
  signal,
  start,
  type Target,
  tell,
} from "./topology/routes.ts";
export type { ApprovalRequest } from "./workflow/approve.ts";
export type { StepOptions, Steps } from "./workflow/steps.ts";
export { defineWorkflow, type WorkflowCall, type WorkflowDefinition } from "./workflow/workflow.ts";
