// The door `millrace/operate`: to inspect what runs, and to act on it.
export { formatEntryKey } from "./contract/ids.ts";
export { keeperAge } from "./keeper/client.ts";
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
export { deleteSchedule, ensureSchedule, pauseSchedule, putSchedule, resumeSchedule, type ScheduleRequest } from "./schedules/change.ts";
export { COUNTED_TIMES } from "./schedules/cron.ts";
export { runSchedule } from "./schedules/run-now.ts";
export { getSchedule, listScheduleRuns, listSchedules, type Schedule } from "./schedules/schedule.ts";
export { applied, audit, type Operator, VERBS } from "./store/actions.ts";
export { fateOf, followersOf, hasInstance, instanceOf, isUnderWay, statusesOf } from "./store/instances/fate.ts";
export { isKnown } from "./store/instances/keys.ts";
export { touchInstance } from "./store/instances/remove.ts";
export { INSTANCE_STATUSES, OVER, REFUSED, SETTLED, STOPPED, UNDER_WAY } from "./store/instances/status.ts";
export type { ScheduleRun } from "./store/schedule-runs.ts";
export { isPruned } from "./store/tombstones.ts";
