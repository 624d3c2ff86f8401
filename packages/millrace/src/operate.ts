// Entry point `millrace/operate`: functions that inspect instances and act on instances. The functions are grouped by the kind of item that
// a function reads or changes.

import { findToken } from "./access/find-token.ts";
import { issueToken, listTokens, mintToken, revokeToken } from "./access/tokens.ts";
import { formatEntryKey } from "./contract/ids.ts";
import {
  countRows,
  ENGINE_TENANT_TABLES,
  eraseObjects,
  removeInstances,
  removeRows,
  removeUnsent,
  stopInstances,
} from "./erase/remove-tenant.ts";
import { ENGINE_TEXTS, rewriteRows, unsentSaying } from "./erase/rewrite.ts";
import { listActions, retriedSince } from "./inspect/actions.ts";
import { getApproval, listApprovals } from "./inspect/approvals.ts";
import { listInstanceCauses, listLetterCauses } from "./inspect/causes.ts";
import { getDeadLetter, listDeadLetters } from "./inspect/dead-letters.ts";
import { effectsOf, listEffects } from "./inspect/effects.ts";
import { historyOf } from "./inspect/history.ts";
import { describeInstance } from "./inspect/instance-detail.ts";
import { getInstance, listInstances, payloadOf } from "./inspect/instances.ts";
import { describeLane, listLanes } from "./inspect/lanes.ts";
import { messagesOf } from "./inspect/messages.ts";
import { beginningWith, matchOf, titleOf } from "./inspect/search/finder.ts";
import { stepsOf } from "./inspect/steps.ts";
import { laneObjectOf } from "./lanes/client.ts";
import { listLimits } from "./limits/seen.ts";
import { breakLock, getLock, listLocks } from "./locks/seen.ts";
import { planBulk, startBulk } from "./operate/bulk/start.ts";
import { decideApproval } from "./operate/decide-approval.ts";
import { actOn, planAct } from "./operate/instances/acts.ts";
import { resolveDoubt } from "./operate/instances/resolve.ts";
import { escalateDeadLetter, planReplay, replayDeadLetter, skipDeadLetter } from "./operate/letters/settle.ts";
import { steerLane } from "./operate/steer-lane.ts";
import { pullObjectOf } from "./pull/stub.ts";
import { roomObjectOf } from "./rooms/client.ts";
import { deleteSchedule, ensureSchedule, pauseSchedule, putSchedule, resumeSchedule, runSchedule } from "./schedules/change.ts";
import { getSchedule, listScheduleRuns, listSchedules } from "./schedules/schedule.ts";
import { actionIdOf } from "./store/actions.ts";
import { fateOf, followersOf, hasInstance, instanceOf, isUnderWay, statusesOf } from "./store/instances/fate.ts";
import { isKnown } from "./store/instances/keys.ts";
import { touchInstance } from "./store/instances/remove.ts";
import { INSTANCE_STATUSES, OVER, REFUSED, SETTLED, STOPPED, UNDER_WAY } from "./store/instances/status.ts";
import { isPruned } from "./store/tombstones.ts";

export { SCOPES, type Scope, type Token } from "./access/tokens.ts";
export type { Rewritten } from "./erase/rewrite.ts";
export type { Instance } from "./inspect/instance-row.ts";
export type { Finder } from "./inspect/search/finder.ts";
export { act } from "./operate/act.ts";
export { audit, auditLate, type Operator, operatorOf } from "./store/actions.ts";
export { keysetPage, type Page, type PageRequest } from "./store/d1/paging.ts";
export { type BulkCall, defineBulkVerb } from "./topology/define-bulk-verb.ts";
export type { Repair } from "./topology/hooks.ts";

/** The instances of a tenant. */
export const instances = {
  get: getInstance,
  list: listInstances,
  describe: describeInstance,
  payload: payloadOf,
  steps: stepsOf,
  effects: effectsOf,
  history: historyOf,
  messages: messagesOf,
  causes: listInstanceCauses,
  act: actOn,
  plan: planAct,
  fate: fateOf,
  followers: followersOf,
  exists: hasInstance,
  find: instanceOf,
  isKnown,
  isPruned,
  isUnderWay,
  statuses: statusesOf,
  touch: touchInstance,
  retriedSince,
};

/** Guarded effects, with their outcomes. */
export const effects = { list: listEffects, resolve: resolveDoubt, key: formatEntryKey };

/** Dead letters: messages that no consumer could process. */
export const deadLetters = {
  list: listDeadLetters,
  get: getDeadLetter,
  replay: replayDeadLetter,
  planReplay,
  skip: skipDeadLetter,
  escalate: escalateDeadLetter,
  causes: listLetterCauses,
};

/** Questions to operators. */
export const approvals = { get: getApproval, list: listApprovals, decide: decideApproval };

/** Recurring commands. */
export const schedules = {
  get: getSchedule,
  list: listSchedules,
  runs: listScheduleRuns,
  put: putSchedule,
  ensure: ensureSchedule,
  pause: pauseSchedule,
  resume: resumeSchedule,
  delete: deleteSchedule,
  run: runSchedule,
};

/** Tokens of callers. */
export const tokens = { find: findToken, issue: issueToken, mint: mintToken, list: listTokens, revoke: revokeToken };

/** Lanes, which process their messages in order, one at a time. */
export const lanes = { list: listLanes, describe: describeLane, steer: steerLane, objectOf: laneObjectOf };

/** Queues that external programs pull from. */
export const pullQueues = { objectOf: pullObjectOf };

/** Rooms of WebSocket clients. */
export const rooms = { objectOf: roomObjectOf };

/** Rate limits. */
export const limits = { list: listLimits };

/** Locks, which ensure that one piece of work runs at a time. */
export const locks = { list: listLocks, get: getLock, break: breakLock };

/** Actions on many items at once. */
export const bulkActions = { plan: planBulk, start: startBulk };

/** The audit: recorded actions of operators. */
export const actions = { list: listActions, idOf: actionIdOf };

/** Removal of a person's or a tenant's data. */
export const erasure = {
  objects: eraseObjects,
  countRows,
  removeInstances,
  removeRows,
  removeUnsent,
  stopInstances,
  rewriteRows,
  unsentSaying,
  tenantTables: ENGINE_TENANT_TABLES,
  texts: ENGINE_TEXTS,
};

/** Functions for the finders of an app, which the console's search calls. */
export const search = { beginningWith, matchOf, titleOf };

/** Groups of the statuses of instances. */
export const statuses = { over: OVER, refused: REFUSED, settled: SETTLED, stopped: STOPPED, underWay: UNDER_WAY, all: INSTANCE_STATUSES };
