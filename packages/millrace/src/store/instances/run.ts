import { MAX_TAGS } from "../../contract/envelope.ts";
import { fragment, now, type RowStatement, type Statement, sql } from "../../contract/sql.ts";
import { KEEPER_PATIENCE_MS } from "../../contract/within.ts";
import { selectCutOffSoFar } from "../actions.ts";
import { isOvertaken, UNDONE } from "../inbox/outcome.ts";
import { canBeTakenBack, hasDoubt, hasNoOutcome } from "../inbox/read.ts";
import { AWAKE, AWAKENED, ENDED, FAILED, type InstanceStatus, IS_CLOSED, isClosed, RETRYABLE, UNSEEN } from "./status.ts";

/**
 * Marks an instance as running. An instance in doubt remains in doubt, because only an operator resolves an unknown outcome. An instance
 * that was marked dead because its message was exhausted becomes running. After a wait has ended, the keeper checks the instance soon.
 * `version`: the version of the workflow that the run executes.
 */
export function markRunning(id: string, version?: number): RowStatement {
  return { text: MARK_RUNNING, row: { id, version } };
}

const MARK_RUNNING = `
  UPDATE millrace_instances SET status = 'running', version = coalesce(r.value->>'version', version), updated_at = ${now.fragment}
  FROM json_each(?1) r WHERE millrace_instances.id = r.value->>'id' AND status IN ${UNSEEN.fragment}`;

/**
 * Marks an instance as running if it was waiting, dead or failed, or if an operator skipped its message during its start. This is a
 * separate statement, because a changed check time costs an additional written row.
 */
export function markAwake(id: string): RowStatement {
  return { text: MARK_AWAKE, row: { id } };
}

const MARK_AWAKE = `
  UPDATE millrace_instances SET status = ${AWAKE.fragment}, error = NULL, updated_at = ${now.fragment}, seen = 1,
    check_at = ${now.fragment} + ${KEEPER_PATIENCE_MS}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status IN ${AWAKENED.fragment} AND NOT ${IS_CLOSED.fragment}`;

/** True if `markAwake` would change an instance with this status. */
export function isAsleep(standing: Standing): boolean {
  return AWAKENED.has(standing.status) && !isClosed(standing);
}

/** Revives an instance whose row has an end although the platform reports the run as running. */
export function revive({ id, run }: { id: string; run: number }): Statement {
  return sql`
    UPDATE millrace_instances SET status = ${AWAKE}, error = NULL, updated_at = ${now}
    WHERE id = ${id} AND run = ${run} AND status IN ${FAILED}`;
}

/** The replay that writes, and the database's time at which it read the inbox (see `Attempt`). */
export interface Reader {
  readonly replay: string;
  readonly given?: string | undefined;
  readonly readAt: number | null;
}

/** State for later replays of a run, as JSON (see `LeftBehind`). */
export interface KeptCaught extends Reader {
  readonly id: string;
  readonly run: number;
  readonly left: string;
}

/** The end of an instance's run. A replay's report contains the fields of `Reader`, and the report of the keeper does not. */
export interface End extends Partial<Reader> {
  readonly id: string;
  /** The number of the run. An operator's retry or undo starts a run with the next number. */
  readonly run: number;
  readonly status: Extract<InstanceStatus, "complete" | "errored" | "terminated">;
  /** The error of the run as JSON; null unless the run failed. */
  readonly error: string | null;
  /** The id of the failure's cause (`causeId`); absent unless the run failed. Failures for the same reason have the same cause. */
  readonly cause?: string | undefined;
  /** The state for the next run (see `LeftBehind`), as JSON. If the value is absent, the state that earlier runs recorded remains. */
  readonly left?: string | null;
  /** The result of a complete child as JSON (see `PackedOutput`); absent for other instances. */
  readonly result?: string | undefined;
  /** The run's usage of the platform as JSON, by the number of the run (see `Spending`); absent if the usage was not counted. */
  readonly spent?: string;
}

/**
 * Records the end of an instance's run. The end of a run before the present run is ignored. Within a run a success replaces a failure,
 * because a successful replay may follow a timed-out replay. A failure never replaces a success. The keeper checks a failed run again. The
 * end of an overtaken replay is ignored, and so is the success of a replay that began before the replay that failed. The statement returns
 * the ids of the instances with a recorded end.
 */
export function finishInstance(end: End): RowStatement {
  return { text: FINISH, row: { ...end } };
}

/** The time at which the replay that ended an instance's run had begun, in the usage of its runs. */
const beganAt = (spent: string) => `json_extract(${spent}, '$.' || run || '.began')`;

const FINISH = `
  UPDATE millrace_instances SET status = r.value->>'status', error = r.value->>'error',
    undone = undo IS NOT NULL AND r.value->>'status' = 'terminated',
    caught = iif(r.value->>'left' IS NULL, caught, ${leftWith(sql`r.value->>'left'`).text}),
    spent = coalesce(json_patch(coalesce(spent, '{}'), r.value->>'spent'), spent), cause = r.value->>'cause',
    result = r.value->>'result', updated_at = ${now.fragment}, seen = 1,
    check_at = iif(r.value->>'status' = 'errored', ${now.fragment} + ${KEEPER_PATIENCE_MS}, NULL)
  FROM json_each(?1) r
  WHERE millrace_instances.id = r.value->>'id' AND millrace_instances.run = r.value->>'run'
    AND (millrace_instances.status NOT IN ${ENDED.fragment}
      OR (millrace_instances.status = 'errored' AND r.value->>'status' <> 'errored'))
    AND (millrace_instances.undo IS NULL OR r.value->>'status' <> 'complete')
    AND NOT coalesce(${beganAt("spent")} > ${beganAt("r.value->>'spent'")}, 0)
    AND NOT ${IS_CLOSED.fragment} AND NOT ${isOvertaken("r.value->>'id'", "r.value").fragment}
  RETURNING id`;

/** Selects the state of an instance: the number of its run, its status, and the action of its undo. */
export interface Standing {
  readonly run: number;
  readonly status: InstanceStatus;
  readonly undo: string | null;
}

/** Selects the state of many instances; each row contains the id of its instance. */
export function selectRun(id: string): RowStatement {
  return { text: SELECT_RUN, row: { id } };
}

const SELECT_RUN = `
  SELECT id, run, undo, status FROM millrace_instances WHERE id IN (SELECT value->>'id' FROM json_each(?1))`;

/** Selects the state that earlier runs of an instance recorded, the steps that a restore of the database lost, and the database's time. */
export function selectLeft(instanceId: string): Statement {
  return sql`
    SELECT caught, lost, error->>'effect' AS effect, ${now} AS read_at
    FROM (SELECT 1) LEFT JOIN millrace_instances ON id = ${instanceId}`;
}

/** Records state for later replays of a run. Returns the instance's status, and no row for an overtaken replay. */
export function keepCaught(kept: KeptCaught): RowStatement {
  return { text: KEEP_CAUGHT, row: { ...kept } };
}

const KEEP_CAUGHT = `
  UPDATE millrace_instances SET caught = ${leftWith(sql`r.value->>'left'`).text}
  FROM json_each(?1) r
  WHERE millrace_instances.id = r.value->>'id' AND run = r.value->>'run' AND NOT ${isOvertaken("r.value->>'id'", "r.value").fragment}
  RETURNING id, run, undo, status`;

/** Adds tags to an instance, up to `MAX_TAGS` in all. The statement writes no row if the instance has the tags already. */
export function addTags(id: string, tags: readonly string[]): Statement {
  const given = JSON.stringify(tags);
  const stored = sql`(SELECT value FROM json_each(envelope, '$.tags'))`;
  return sql`
    UPDATE millrace_instances SET envelope = json_set(envelope, '$.tags', (SELECT json_group_array(value) FROM (
      SELECT value FROM json_each(envelope, '$.tags')
      UNION ALL SELECT DISTINCT value FROM json_each(${given}) WHERE value NOT IN ${stored} LIMIT ${MAX_TAGS})))
    WHERE id = ${id} AND coalesce(json_array_length(envelope, '$.tags'), 0) < ${MAX_TAGS}
      AND EXISTS (SELECT 1 FROM json_each(${given}) WHERE value NOT IN ${stored})`;
}

/** Replaces the recorded progress of an instance with a step's report and the present time. A run that has ended accepts no report. */
export function setProgress(id: string, step: string, report: string): Statement {
  return sql`
    UPDATE millrace_instances
    SET progress = json_patch(coalesce(progress, '{}'), json_object(${step}, json_insert(${report}, '$[#]', ${now})))
    WHERE id = ${id} AND status NOT IN ${ENDED}`;
}

/** A run of an instance that an operator's action starts. */
export interface NextRun {
  readonly id: string;
  readonly tenantId: string;
  /** The number of the new run: one more than the number of the run that was read. */
  readonly run: number;
  /** The state that is added for the new run (see `LeftBehind`), as JSON. */
  readonly left: string;
}

/** An operator's retry of an instance, and its preconditions. */
interface Retry extends NextRun {
  /** True when the retry starts from the beginning, without the state of earlier runs. */
  readonly isAnew: boolean;
  /** The database's time at which the past was read. The retry requires that no effect was recorded since. Null without this condition. */
  readonly readAt: number | null;
}

/** The recorded state of an instance that starts from the beginning: only the failures that a retry cleared remain cleared. */
const CLEARED = fragment(`(SELECT json_group_object(key, json_object('open', run, 'upTo', value->>'upTo'))
      FROM json_each(millrace_instances.caught) WHERE value->>'upTo' IS NOT NULL)`);

/** Starts the next run for an operator's retry. The run of an undone instance starts from the beginning. */
export function beginRetry({ id, tenantId, run, left, isAnew, readAt }: Retry): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', run = ${run}, error = NULL, caught = ${isAnew ? CLEARED : leftWith(sql`${left}`)},
      undo = iif(status = 'terminated', NULL, undo), undone = 0, progress = NULL, updated_at = ${now},
      check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${RETRYABLE} AND run < ${run}
      AND NOT EXISTS (SELECT 1 FROM millrace_inbox WHERE instance_id = ${id} AND state <> 'failed' AND updated_at >= ${readAt})`;
}

/** Starts the run that undoes the effects of the earlier runs. */
export function beginUndo({ id, tenantId, run, left }: NextRun, actionId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', run = ${run}, error = NULL, caught = ${leftWith(sql`${left}`)}, undo = ${actionId},
      progress = NULL, updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${ENDED} AND undo IS NULL AND run < ${run}
      AND NOT ${hasDoubt(id)} AND ${hasToTakeBack(tenantId, id)}`;
}

/** An operator's retry or undo that could not be applied. */
export interface GivenUpRun {
  readonly id: string;
  readonly instance: string;
  /** The number of the run that the action started. */
  readonly run: number | null;
  readonly failure: object;
  /** The cause of the action's failure (`causeId`). */
  readonly cause: string;
}

/** Marks the instances of failed retries and undos as errored. The statement must follow the statement that marks the actions as failed. */
export function giveUpRuns(given: readonly GivenUpRun[]): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'errored', error = f.value->'failure', cause = f.value->>'cause', updated_at = ${now},
      check_at = ${now} + ${KEEPER_PATIENCE_MS}
    FROM json_each(${JSON.stringify(given)}) f
    WHERE millrace_instances.id = f.value->>'instance' AND (status = 'running' OR status = 'paused') AND run = f.value->>'run'
      AND EXISTS (SELECT 1 FROM millrace_actions WHERE millrace_actions.id = f.value->>'id' AND result = 'failed')`;
}

/**
 * SQL expression that merges `more` into the state that earlier runs of an instance recorded (JSON, see `LeftBehind`). A step's new value
 * replaces the step's old value, except `upTo`. The merge is a single statement, because two replays may update different steps at the
 * same time.
 */
export function leftWith(more: Statement): Statement {
  const cleared = sql`json_object('upTo', coalesce(m.value->>'upTo',
    (SELECT c.value->>'upTo' FROM json_each(coalesce(caught, '{}')) c WHERE c.key = m.key)))`;
  const replaced = sql`(SELECT json_group_object(key, NULL) FROM json_each(${more}))`;
  const added = sql`(SELECT json_group_object(m.key, json_patch(m.value, ${cleared})) FROM json_each(${more}) m)`;
  return sql`json_patch(json_patch(coalesce(caught, '{}'), ${replaced}), ${added})`;
}

/**
 * The condition that an instance has an effect to undo. The effect is recorded, or it failed and has an undo but no record. In a stopped
 * run, an interrupted step without a later record counts as an effect too.
 */
export function hasToTakeBack(tenantId: string, id: string): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM millrace_inbox WHERE ${canBeTakenBack(id)})
      OR (millrace_instances.undo IS NULL AND ${mayHaveHappened(id)})
      OR (status = 'terminated' AND EXISTS (
        SELECT 1 FROM (${selectCutOffSoFar(tenantId, id)}) cut WHERE ${hasNoOutcome(id, fragment("cut.label"))})))`;
}

/** Returns a row if an ended instance has an effect to undo. */
export function selectToTakeBack(tenantId: string, id: string): Statement {
  return sql`SELECT 1 FROM millrace_instances WHERE id = ${id} AND tenant_id = ${tenantId} AND ${hasToTakeBack(tenantId, id)}`;
}

/** The condition that an effect with an undo has failed without a record. Its failure ended the run, or the code caught the failure. */
function mayHaveHappened(id: string): Statement {
  const ended = fragment("coalesce(nullif(millrace_instances.error->>'step', ''), millrace_instances.error->>'behind')");
  return sql`(
    (millrace_instances.error->>'effect' = 'undoable' AND ${hasNoOutcome(id, ended)})
    OR EXISTS (SELECT 1 FROM json_each(millrace_instances.caught) failure
      WHERE failure.value->>'effect' = 'undoable' AND ${hasNoOutcome(id, fragment("failure.key"))})
    OR EXISTS (SELECT 1 FROM millrace_inbox, json_each(millrace_inbox.caught) failure
      WHERE millrace_inbox.instance_id = ${id} AND failure.value->>'effect' = 'undoable'
        AND (millrace_inbox.state IN ('claimed', 'in_doubt', 'confirmed', 'done')
          OR (millrace_inbox.state = 'superseded' AND millrace_inbox.token <> ${UNDONE}))
        AND NOT EXISTS (SELECT 1 FROM json_each(millrace_instances.caught) c
          WHERE c.key = failure.key AND c.value->>'upTo' > millrace_inbox.position)
        AND ${hasNoOutcome(id, fragment("failure.key"))}))`;
}
