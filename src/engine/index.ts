// The door `millrace`: what the author of messages, steps, workflows and consumers writes with.
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
export {
  type CommandDefinition,
  type Draft,
  defineCommand,
  defineEvent,
  type EventDefinition,
  type MessageDefinition,
} from "./contract/message.ts";
export { nearest } from "./contract/nearest.ts";
export { defineQueue, type QueueDefinition } from "./contract/queue.ts";
export { among, type Fragment, fragment, now, type RowStatement, rowChunks, type SqlValue, type Statement, sql } from "./contract/sql.ts";
export { beginning } from "./contract/text.ts";
export { newTrace, nextHop, type SaidTrace, type TraceContext, traceHeaders, traceIdOf } from "./contract/trace.ts";
export type { ApprovalRequest } from "./guard/approve.ts";
export {
  type Commit,
  DEFAULT_RETRIES,
  type Done,
  defineStep,
  type EffectCall,
  type EffectClass,
  type Retries,
  type StepDefinition,
  type Writes,
} from "./guard/step.ts";
export type { StepOptions, Steps } from "./guard/steps.ts";
export { defineWorkflow, type WorkflowCall, type WorkflowDefinition } from "./guard/workflow.ts";
export { type Accepted, type CommandRequest, enqueue, type Requester } from "./intake/enqueue.ts";
export { type EventRequest, type Stated, stateEvents } from "./intake/state.ts";
export { type Limit, type LimitEnv, limitOf } from "./limits/client.ts";
export type { Window } from "./limits/windows.ts";
export { type AuditRow, listActions, retriedSince } from "./operate/actions.ts";
export { type ApprovalFilter, type ApprovalRow, decideApproval, getApproval, listApprovals } from "./operate/approvals.ts";
export { type DeadLetterReader, type DeadLetterRow, getDeadLetter, listDeadLetters } from "./operate/dead-letters.ts";
export { pingDatabase } from "./operate/health.ts";
export { historyOf, type NamedStep, stepsOf } from "./operate/history.ts";
export {
  describeInstance,
  type Effect,
  type EmittedMessage,
  effectsOf,
  getInstance,
  type Instance,
  type InstanceFilter,
  listEffects,
  listInstances,
  messagesOf,
  payloadOf,
} from "./operate/instances.ts";
export { assertMayAsk, assertMayState } from "./operate/may-ask.ts";
export { keysetPage, type Page, type PageRequest } from "./operate/paging.ts";
export { countRows, ENGINE_TENANT_TABLES, removeInstances, removeRows, removeUnsent, stopInstances } from "./operate/remove-tenant.ts";
export { type Resolution, resolveDoubt } from "./operate/resolve.ts";
export { planRetry, type RetryPlan, retryInstance } from "./operate/retry.ts";
export { ENGINE_TEXTS, type Rewriter, type Rewritten, rewriteRows, type TextTable, unsentSaying } from "./operate/rewrite.ts";
export { type Replayed, replayDeadLetter, skipDeadLetter } from "./operate/settle-dead-letter.ts";
export {
  findToken,
  type Grant,
  issueToken,
  listTokens,
  mintToken,
  revokeToken,
  SCOPES,
  type Scope,
  type Token,
  type TokenRow,
} from "./operate/tokens.ts";
export { planUndo, type UndoPlan, type UndoVerdict, undoInstance } from "./operate/undo.ts";
export { Recorder } from "./recorder/recorder.ts";
export { relay } from "./recorder/relay.ts";
export { deleteSchedule, ensureSchedule, pauseSchedule, putSchedule, resumeSchedule, type ScheduleRequest } from "./schedules/change.ts";
export { COUNTED_TIMES } from "./schedules/cron.ts";
export { runSchedule } from "./schedules/run-now.ts";
export { getSchedule, listScheduleRuns, listSchedules, type Schedule } from "./schedules/schedule.ts";
export type { Approval } from "./signals/approval.ts";
export { applied, audit, type Operator, VERBS } from "./store/actions.ts";
export { fateOf, followersOf, hasInstance, instanceOf, isUnderWay, statusesOf } from "./store/instances/fate.ts";
export { isKnown } from "./store/instances/keys.ts";
export { touchInstance } from "./store/instances/remove.ts";
export { INSTANCE_STATUSES } from "./store/instances/status.ts";
export { namedBatch } from "./store/named.ts";
export type { Outgoing } from "./store/outbox.ts";
export { batch, query } from "./store/retry.ts";
export type { ScheduleRun } from "./store/schedule-runs.ts";
export { isPruned } from "./store/tombstones.ts";
export { isTransient } from "./store/trouble.ts";
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
