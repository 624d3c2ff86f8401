import { MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { among, type Fragment, fragment, now, type Statement, sql } from "../contract/sql.ts";
import { KEEPER_PATIENCE_MS } from "../contract/within.ts";
import { isOpenChild } from "./instances/children.ts";

/** The operator of an action, and the action's tenant. */
export interface Operator {
  tenantId: string;
  /** The token's name, for the audit. */
  actor: string;
  /** The id of the operator's token; undefined for another authentication, and for direct access to the database. */
  tokenId?: string | undefined;
  /** The token's scopes that the request needed, separated by spaces. */
  scope?: string | undefined;
  /** Set when a bulk action acts for the operator: the id of the bulk action, and the id of the action on the present item. */
  bulk?: { readonly id: string; readonly actionId: string };
}

/** The part of a caller that the audit stores. */
export function operatorOf({ tenantId, actor, tokenId, scope, bulk }: Operator): Operator {
  return { tenantId, actor, tokenId, scope, bulk };
}

/** The id of an operator's action: a new id, or an id that a bulk action derives. */
export function actionIdOf({ bulk }: Operator): string {
  return bulk?.actionId ?? crypto.randomUUID();
}

/** The id of a bulk action's action on one item: every retry of the chunk uses the same id. */
export function bulkActionId(bulkId: string, target: string): string {
  return digest("bulk item", bulkId, target);
}

/**
 * The actions of operators on an effect, a dead letter, a lane, a schedule, an approval, a token, a lock or an alert. The declarations in
 * `operate/instances` have the verbs of actions on an instance.
 */
export const VERBS = [
  "confirm",
  "reject",
  "retry_anyway",
  "replay",
  "skip",
  "escalate",
  "repair",
  "schedule",
  "unschedule",
  "pause",
  "resume",
  "run",
  "approve",
  "reject_approval",
  "retry_head",
  "skip_head",
  "mint",
  "revoke",
  "break",
  "move_tenant",
  "mute",
  "unmute",
  "attempt",
  "bulk",
  "abort",
  "reveal",
] as const;

/** A verb of the engine or of an app. */
type Verb = (typeof VERBS)[number] | (string & {});

/**
 * The result of an action. `no_change`: the action found nothing to change. `failed`: the action could not be applied for a day. `refused`:
 * the action was not started.
 */
export type ActionResult = "applied" | "no_change" | "failed" | "refused";

/** The part of a target's state that an action changes, such as a status or a setting. It contains no payloads and no secrets. */
type Standing = Readonly<Record<string, unknown>>;

export interface Action {
  id: string;
  verb: Verb;
  target: string;
  instanceId: string | null;
  reason: string;
  detail?: Record<string, unknown>;
  /** A query for a JSON object, which is merged into the detail when the audit row is written. */
  found?: Statement | undefined;
  /** The target's state before the action. It is stored only if the action was applied. */
  before?: Standing | undefined;
  /** The target's state after the action. It is stored only if the action was applied. */
  after?: Standing | undefined;
}

const COLUMNS = fragment(
  `id, tenant_id, actor, token_id, scope, verb, target, instance_id, reason, detail, before, after, result, at, due_at, applied_at`,
);

/** The values of the first columns of an action's audit row. */
function said({ tenantId, actor, tokenId, scope }: Operator, { id, verb, target, instanceId, reason, detail, found }: Action): Statement {
  return sql`${id}, ${tenantId}, ${actor}, ${tokenId ?? null}, ${scope ?? null}, ${verb}, ${target}, ${instanceId}, ${reason},
    ${found ? withFound(detail, found) : asJson(detail)}`;
}

const withFound = (detail: object | undefined, found: Statement): Statement => sql`json_patch(${asJson(detail ?? {})}, (${found}))`;
const asJson = (value: object | undefined): string | null => (value ? JSON.stringify(value) : null);

/** The change of a refused action: it changes no row, so `audit` records the refusal. */
export const NO_CHANGE = sql`UPDATE millrace_actions SET error = NULL WHERE id = ''`;

/**
 * Audits an action. The statement must directly follow the statement that applies the action: the audit row's result says whether that
 * previous statement changed a row. The audit statement is idempotent, because it is repeated after a lost response. An action that must
 * also be applied on the platform stays open (`applied_at` is empty) until the platform has applied it. The keeper retries an open action
 * when the action's lease has expired. The whole batch is refused (`isOnRecord`) if the action is part of a bulk action and is already
 * recorded. Without the refusal the action would be repeated, because the item may have its former state again. `provided` is the condition
 * for the audit row. Errors: `invariant` for an action without the id of its bulk action.
 */
export function audit(by: Operator, action: Action, tellsPlatform: boolean, provided: Statement = sql`true`): Statement {
  const { bulk } = by;
  if (bulk && action.id !== bulk.actionId) {
    throw new MillraceError("invariant", `The action ${action.verb} of a bulk action has the wrong id: use actionIdOf(by).`);
  }
  const detail = bulk ? { ...action.detail, bulk: bulk.id } : action.detail;
  return sql`
    INSERT INTO millrace_actions (${COLUMNS})
    SELECT ${said(by, { ...action, detail })},
      iif(changes() > 0, ${asJson(action.before)}, NULL), iif(changes() > 0, ${asJson(action.after)}, NULL),
      iif(changes() > 0, 'applied', 'no_change'), ${now}, ${now} + ${KEEPER_PATIENCE_MS},
      iif(changes() > 0 AND ${tellsPlatform ? 1 : 0}, NULL, ${now})
    WHERE ${provided} ${bulk ? sql`` : sql`ON CONFLICT (id) DO NOTHING`}`;
}

/**
 * Audits the cancels of the children of a cancelled parent. Each row names the operator's action on the parent (`derived_from`) and remains
 * open until the keeper has carried the cancel out. The statement must follow the audit of the action, and precede the cancels.
 */
export function auditDerivedCancels(parent: string, actionId: string, undo: boolean): Statement {
  const status = undo ? "running" : "terminated";
  return sql`
    INSERT INTO millrace_actions (${COLUMNS})
    SELECT lower(hex(randomblob(16))), a.tenant_id, a.actor, a.token_id, a.scope, 'cancel', millrace_instances.id, millrace_instances.id,
      a.reason, json_object('run', run + 1, 'undo', json(${String(undo)}), 'derived_from', a.id),
      json_object('status', status, 'run', run),
      json_object('status', iif(status = 'in_doubt' AND ${undo ? 1 : 0}, status, ${status}), 'run', run + 1),
      'applied', ${now}, ${now}, NULL
    FROM millrace_actions a CROSS JOIN millrace_instances ON millrace_instances.tenant_id = a.tenant_id
    WHERE a.id = ${actionId} AND a.result = 'applied' AND ${isOpenChild(parent)}`;
}

/** True for the error of a bulk action's batch that was refused because its action on the item is already recorded. */
export function isOnRecord(error: unknown): boolean {
  return error instanceof Error && error.message.includes("UNIQUE constraint failed: millrace_actions.id");
}

/** The recorded results of actions. */
export function selectResults(tenantId: string, ids: readonly string[]): Statement {
  return sql`SELECT id, result FROM millrace_actions WHERE id IN ${among(ids)} AND +tenant_id = ${tenantId}`;
}

/**
 * Audits a completed action, either in the transaction of the action, or later from a Durable Object that stores pending audit rows. The
 * statement is idempotent. The statement may precede the statement that applies the action, because `provided` is the condition for the
 * audit row.
 */
export function auditDone(by: Operator, action: Action, result: ActionResult = "applied", provided: Statement = sql`true`): Statement {
  const [before, after] = result === "applied" ? [action.before, action.after] : [];
  return sql`
    INSERT INTO millrace_actions (${COLUMNS})
    SELECT ${said(by, action)}, ${asJson(before)}, ${asJson(after)}, ${result}, ${now}, 0, ${now} WHERE ${provided}
    ON CONFLICT (id) DO NOTHING`;
}

/** Audits an action that was not applied because its target had changed before. */
export function auditLate(by: Operator, action: Action): Statement {
  return auditDone(by, action, "no_change");
}

/** Selects the result of an action. The query is the last statement of the action's batch. */
export function applied(actionId: string): Statement {
  return sql`SELECT result FROM millrace_actions WHERE id = ${actionId}`;
}

/** The condition that an action was applied. The later statements of an action's batch have the condition that the action was applied. */
export function wasApplied(actionId: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_actions WHERE id = ${actionId} AND result = 'applied')`;
}

/** Selects the time of the action that started a run of an instance. */
export function selectRunBegun(tenantId: string, instanceId: string, run: number): Statement {
  return sql`
    SELECT max(at) AS at FROM millrace_actions INDEXED BY millrace_actions_by_instance
    WHERE tenant_id = ${tenantId} AND instance_id = ${instanceId} AND result = 'applied' AND detail->>'run' = ${run}`;
}

/** Selects the time of an action. */
export function selectAskedAt(id: string | null): Statement {
  return sql`SELECT at FROM millrace_actions WHERE id = ${id}`;
}

/** Records which steps of the previous run an action has interrupted. The audited fields of the action do not change. */
export function noteCutOff(id: string, labels: readonly string[]): Statement {
  return sql`UPDATE millrace_actions SET cut_off = ${JSON.stringify(labels)} WHERE id = ${id}`;
}

/**
 * Selects the steps that any action had interrupted when an undo started. `undo` is the id of the undo's action. An interrupted step that
 * was recorded later has an entry. A step that an earlier undo has undone may be interrupted again, so each step is returned with the time
 * of that earlier undo's action.
 */
export function selectCutOff(undo: string | null): Statement {
  return cutOffBefore(sql`SELECT tenant_id, target, at, detail->>'run' AS run FROM millrace_actions WHERE id = ${undo}`);
}

/** Selects the steps that actions have interrupted so far, for an undo that has not started yet. */
export function selectCutOffSoFar(tenantId: string, instanceId: string): Statement {
  return cutOffBefore(sql`
    SELECT tenant_id, id AS target, ${now} AS at, run + 1 AS run FROM millrace_instances
      WHERE id = ${instanceId} AND tenant_id = ${tenantId}`);
}

function cutOffBefore(undo: Statement): Statement {
  return sql`
    SELECT value AS label, u.at
    FROM (${undo}) u CROSS JOIN millrace_actions a ON a.tenant_id = u.tenant_id AND a.target = u.target
      AND a.detail->>'run' <= u.run, json_each(a.cut_off)
    WHERE NOT EXISTS (SELECT 1 FROM millrace_actions back
      WHERE back.tenant_id = u.tenant_id AND back.target = u.target AND back.result = 'applied'
        AND (back.verb = 'undo' OR (back.verb = 'cancel' AND back.detail->>'undo'))
        AND back.detail->>'run' >= a.detail->>'run' AND back.detail->>'run' < u.run)`;
}

/** The lease of an open action in milliseconds. The lease is longer than the maximum total duration of the calls that apply the action. */
const LEASE_MS = 30_000;
/** The delay after the first failed attempt, in milliseconds. The delay doubles after each further failure. */
const FIRST_PAUSE_MS = 5000;
/** Interval of the checks whether the platform has ended a run that has already reported its end, in milliseconds. */
const ENDING_PAUSE_MS = 10_000;
const MAX_PAUSE_MS = 3_600_000;
/**
 * An action that starts a run, such as a retry, is marked `failed` if it could not be applied within this time, in milliseconds. The status
 * shows operators that the action failed, for example because the workflow was renamed. An operator cannot repeat an answer to an approval
 * or an unknown outcome, so such an action never fails, and is retried once a day.
 */
const GIVE_UP_MS = 86_400_000;
const BEGINS_RUN = fragment("verb IN ('retry', 'undo', 'cancel', 'restart', 'skip_step')");

/**
 * Leases open actions that are not leased. The lease is needed because two concurrent attempts to restart the same run would interrupt each
 * other's effects. `which` is a condition on `a`. Actions on the workflows of other Workers are not leased. The statement returns the ids
 * of the leased actions.
 */
export function takeActions(which: Statement, elsewhere: ReadonlySet<string>): Statement {
  return sql`
    UPDATE millrace_actions SET lease_until = ${now} + ${LEASE_MS}
    WHERE lease_until <= ${now} AND id IN (
      SELECT a.id FROM millrace_actions a CROSS
        JOIN millrace_instances i ON i.id = a.instance_id WHERE a.applied_at IS NULL AND a.lease_until <= ${now}
        AND i.workflow NOT IN ${among([...elsewhere])} AND ${which})
    RETURNING id`;
}

/**
 * The condition that an instance is complete, or that its undo has started. Then the run has ended, and an undo reads the effects of that
 * run. `instanceId` is an SQL expression.
 */
export function isRunOver(instanceId: string): Fragment {
  return fragment(`EXISTS (SELECT 1 FROM millrace_instances i LEFT JOIN millrace_actions a ON a.id = i.undo
    WHERE i.id = ${instanceId} AND (i.status = 'complete' OR a.restarted_at IS NOT NULL))`);
}

/**
 * Records that the run of an action starts, because the platform has ended the previous run. A retry or a restart calls this function after
 * the platform's restart. An undo calls this function before the platform's restart, and after the call no commit of the previous run is
 * recorded (`isRunOver`).
 */
export function noteRunBegun(id: string): Statement {
  return sql`UPDATE millrace_actions SET restarted_at = ${now} WHERE id = ${id}`;
}

/** Marks actions as applied on the platform. */
export function noteKept(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_actions SET applied_at = ${now}, lease_until = 0, error = NULL
    WHERE id IN ${among(ids)} AND applied_at IS NULL`;
}

/** An open action that could not be applied now. */
interface Failed {
  readonly id: string;
  /** True if the action waits only until the platform ends the failed run. */
  readonly soon: boolean;
  readonly why: string | null;
}

/** Delays open actions, each with a separate backoff. */
export function putOff(failed: readonly Failed[]): Statement {
  return sql`
    UPDATE millrace_actions SET attempts = attempts + 1, lease_until = 0, error = f.value->>'why',
      due_at = ${now} + iif(at <= ${now} - ${GIVE_UP_MS}, ${GIVE_UP_MS}, iif(f.value->>'soon', ${ENDING_PAUSE_MS},
        min(${FIRST_PAUSE_MS} * (1 << min(attempts, 10)), ${MAX_PAUSE_MS})))
    FROM json_each(${JSON.stringify(failed)}) f WHERE millrace_actions.id = f.value->>'id' AND applied_at IS NULL`;
}

/** Marks actions that start a run as failed, after a day without success. */
export function giveUpActions(failed: readonly Failed[]): Statement {
  return sql`
    UPDATE millrace_actions SET result = 'failed', applied_at = ${now}
    WHERE id IN (SELECT value->>'id' FROM json_each(${JSON.stringify(failed)})) AND applied_at IS NULL AND at <= ${now} - ${GIVE_UP_MS}
      AND ${BEGINS_RUN}`;
}

/** Selects old audit rows, except open actions of any age. The query scans the table of actions. */
export function selectOldActions(keepMs: number, limit: number): Statement {
  return sql`SELECT id FROM millrace_actions WHERE at <= ${now} - ${keepMs} AND applied_at IS NOT NULL LIMIT ${limit}`;
}

/** Removes audit rows. The batch must open the audit before this statement. */
export function removeActions(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_actions WHERE id IN ${among(ids)}`;
}
