// Entry point `millrace/operate`: inspect instances, and act on them.

export { findToken } from "./access/find-token.ts";
export { assertMayAsk, assertMayState } from "./access/may-ask.ts";
export {
  type Grant,
  issueToken,
  listTokens,
  mintToken,
  revokeToken,
  SCOPES,
  type Scope,
  type Token,
  type TokenRow,
} from "./access/tokens.ts";
export { formatEntryKey } from "./contract/ids.ts";
export { eraseObjects } from "./erase/erase-objects.ts";
export { countRows, ENGINE_TENANT_TABLES, removeInstances, removeRows, removeUnsent, stopInstances } from "./erase/remove-tenant.ts";
export { ENGINE_TEXTS, type Rewriter, type Rewritten, rewriteRows, type TextTable, unsentSaying } from "./erase/rewrite.ts";
export { type AuditRow, listActions, retriedSince } from "./inspect/actions.ts";
export { type ApprovalFilter, type ApprovalRow, getApproval, listApprovals } from "./inspect/approvals.ts";
export { type InstanceCause, type LetterCause, listInstanceCauses, listLetterCauses } from "./inspect/causes.ts";
export { type DeadLetterReader, type DeadLetterRow, type FullDeadLetter, getDeadLetter, listDeadLetters } from "./inspect/dead-letters.ts";
export { type Effect, effectsOf, listEffects } from "./inspect/effects.ts";
export { assertSchema } from "./inspect/health.ts";
export { historyOf } from "./inspect/history.ts";
export { describeInstance } from "./inspect/instance-detail.ts";
export { getInstance, type Instance, type InstanceFilter, listInstances, payloadOf } from "./inspect/instances.ts";
export { describeLane, type LaneRow, listLanes, type NotedLane } from "./inspect/lanes.ts";
export { type EmittedMessage, messagesOf } from "./inspect/messages.ts";
export { beginningWith, type Finder, type Found, matchOf, type Sought, titleOf } from "./inspect/search/finder.ts";
export { type NamedStep, stepsOf } from "./inspect/steps.ts";
export { keeperAge } from "./keeper/client.ts";
export type { LaneName } from "./lanes/lane-name.ts";
export type { Steered } from "./lanes/lane-object.ts";
export type { KeptLetter } from "./lanes/letters.ts";
export type { LaneHead, LaneLook, WaitingMessage } from "./lanes/look.ts";
export { type LaneStub, laneObjectOf } from "./lanes/stub.ts";
export { LANE_VERBS, type LaneVerb } from "./lanes/turns-stub.ts";
export { type LimitRow, listLimits } from "./limits/seen.ts";
export { breakLock, getLock, type HeldLock, listLocks } from "./locks/seen.ts";
export { act } from "./operate/act.ts";
export { planBulk, startBulk } from "./operate/bulk/start.ts";
export { decideApproval } from "./operate/decide-approval.ts";
export { type ActName, actOn, planAct } from "./operate/instances/acts.ts";
export type { ActionPlan } from "./operate/instances/plan.ts";
export { type Resolution, resolveDoubt } from "./operate/instances/resolve.ts";
export { escalateDeadLetter } from "./operate/letters/escalate.ts";
export { planReplay, type ReplayPlan } from "./operate/letters/plan-replay.ts";
export { type Replayed, replayDeadLetter } from "./operate/letters/replay.ts";
export { skipDeadLetter } from "./operate/letters/skip.ts";
export { type Steering, steerLane } from "./operate/steer-lane.ts";
export type { KeptPullLetter } from "./pull/letters.ts";
export type { PullName } from "./pull/pull-name.ts";
export type { PullLook } from "./pull/pull-object.ts";
export { type PullStub, pullObjectOf } from "./pull/stub.ts";
export type { RoomName } from "./rooms/room-name.ts";
export type { RoomLook } from "./rooms/room-object.ts";
export { type RoomStub, roomObjectOf } from "./rooms/stub.ts";
export { deleteSchedule, ensureSchedule, pauseSchedule, putSchedule, resumeSchedule, type ScheduleRequest } from "./schedules/change.ts";
export { COUNTED_TIMES } from "./schedules/cron.ts";
export { runSchedule } from "./schedules/run-now.ts";
export { getSchedule, listScheduleRuns, listSchedules, type Schedule, type ScheduleRun } from "./schedules/schedule.ts";
export { type Action, actionIdOf, audit, auditLate, type Operator, operatorOf } from "./store/actions.ts";
export { keysetPage, type Page, type PageRequest } from "./store/d1/paging.ts";
export { fateOf, followersOf, hasInstance, instanceOf, isUnderWay, statusesOf } from "./store/instances/fate.ts";
export { isKnown } from "./store/instances/keys.ts";
export { touchInstance } from "./store/instances/remove.ts";
export { INSTANCE_STATUSES, OVER, REFUSED, SETTLED, STOPPED, UNDER_WAY } from "./store/instances/status.ts";
export { isPruned } from "./store/tombstones.ts";
