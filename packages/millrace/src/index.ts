// Entry point `millrace`: definitions of messages, steps, workflows, queues and consumers, and the functions that their code calls.

export { AlertChanged, type AlertNotice } from "./alerts/notice.ts";
export { type AlertSenderOptions, alertSender } from "./alerts/send-alert.ts";
export { type CallbackOptions, callbackSender } from "./callbacks/send-callback.ts";
export type { AddressGuard } from "./contract/address-guard.ts";
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
export { type LogLevel, logLine } from "./contract/log-line.ts";
export {
  type CommandDefinition,
  type Draft,
  defineCommand,
  defineEvent,
  type EventDefinition,
  type MessageDefinition,
} from "./contract/message.ts";
export { nearest } from "./contract/nearest.ts";
export { defineLaneQueue, defineQueue, MAX_DELAY_SECONDS, type QueueDefinition, type QueueOptions } from "./contract/queue.ts";
export { retryAfterMs } from "./contract/retry-after.ts";
export { sensitive } from "./contract/sensitive.ts";
export { among, type Fragment, fragment, now, type RowStatement, rowChunks, type SqlValue, type Statement, sql } from "./contract/sql.ts";
export type { StepMode } from "./contract/step-mode.ts";
export { beginning, characterCount } from "./contract/text.ts";
export { newTrace, nextHop, type SaidTrace, type TraceContext, traceHeaders, traceIdOf } from "./contract/trace.ts";
export { type CounterEnv, type CounterOptions, counterOf, type SharedCounter } from "./counters/client.ts";
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
export { type Accepted, type CommandRequest, enqueue, enqueueOne, type Requester } from "./intake/accept/enqueue.ts";
export { type EventRequest, type Stated, stateEvents } from "./intake/accept/state.ts";
export {
  type LaneClient,
  type LaneKeyMessage,
  type LaneKeySent,
  type LaneMessage,
  laneOf,
  sendToLanes,
} from "./lanes/client.ts";
export { defineLane, type LaneDefinition, type LaneLetter, type LaneRetries, type OnFailure } from "./lanes/definition.ts";
export type { LaneSendOptions } from "./lanes/message.ts";
export type { LaneSent } from "./lanes/storage.ts";
export type { LaneEnv } from "./lanes/stub.ts";
export type { TokenBucket } from "./limits/bucket.ts";
export { type Limit, type LimitEnv, type LimitOptions, limitOf } from "./limits/client.ts";
export type { Window } from "./limits/windows.ts";
export { type Held, type LockEnv, type LockOptions, type Tried, tryLock, withLock } from "./locks/client.ts";
export { type Millrace, type MillraceOptions, millrace } from "./millrace.ts";
export { tracedCall } from "./observe/traces/call.ts";
export { BulkActionRun } from "./operate/bulk/message.ts";
export { bulkAction } from "./operate/bulk/workflow.ts";
export { type PullQueueClient, pullQueueOf } from "./pull/client.ts";
export { definePullQueue, PULL_SCOPE, type PullLetter, type PullQueueDefinition } from "./pull/definition.ts";
export type { PullContentType, PullMessage, PullSendOptions, PullSent } from "./pull/message.ts";
export type { PullEnv } from "./pull/stub.ts";
export { type RoomClient, type RoomSendOptions, roomOf } from "./rooms/client.ts";
export { defineRoom, type RoomDefinition } from "./rooms/definition.ts";
export type { RoomFrame } from "./rooms/frames.ts";
export type { RoomMessage, RoomSent } from "./rooms/history.ts";
export type { RoomEnv } from "./rooms/stub.ts";
export { type RoomGuest, roomTicket } from "./rooms/ticket.ts";
export type { Approval } from "./signals/approval.ts";
export { namedBatch } from "./store/d1/named.ts";
export { atomically, query } from "./store/d1/retry.ts";
export { isTransient } from "./store/d1/trouble.ts";
export type { Acted, ActedOn, Outcome } from "./topology/bulk-verb.ts";
export { type ConsumerDefinition, defineConsumer } from "./topology/consumer.ts";
export { type BulkCall, type BulkVerb, defineBulkVerb } from "./topology/define-bulk-verb.ts";
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
export {
  type CallbackSender,
  type CommandedWorkflow,
  type Deployment,
  defineWorkflow,
  type WorkflowCall,
  type WorkflowDefinition,
} from "./workflow/workflow.ts";
