import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { among, fragment, now, type Statement, sql } from "../contract/sql.ts";

/** Who acts, for which tenant, and why. */
export interface Operator {
  tenantId: string;
  /** The token's name, for the audit. */
  actor: string;
}

/**
 * What an operator can do by the engine; about an instance, an effect, a dead letter, a schedule, an approval, a token, a lock, an alert.
 */
export const VERBS = [
  "retry",
  "confirm",
  "reject",
  "retry_anyway",
  "replay",
  "skip",
  "schedule",
  "unschedule",
  "pause",
  "resume",
  "run",
  "approve",
  "reject_approval",
  "undo",
  "retry_head",
  "skip_head",
  "mint",
  "revoke",
  "break",
  "mute",
  "unmute",
] as const;

/** The engine's verbs, and an app's own. */
type Verb = (typeof VERBS)[number] | (string & {});

/** What came of an action: `no_change` where there was nothing to do, `failed` where it could not be carried out for a day. */
export type ActionResult = "applied" | "no_change" | "failed";

/** One operator action as it is recorded. */
export interface Action {
  id: string;
  verb: Verb;
  target: string;
  instanceId: string | null;
  reason: string;
  detail?: Record<string, unknown>;
}

/**
 * Audits an action, right behind the statement that carries it out: whether that one changed anything is the action's result. Repeated,
 * because the database's answer was lost, it finds what it wrote. An applied action that the platform must still hear of stays open
 * (`applied_at` is empty) until it has; the keeper comes for it when whoever promised it had time to.
 */
export function audit(by: Operator, action: Action, tellsPlatform: boolean): Statement {
  return sql`
    INSERT INTO actions (id, tenant_id, actor, verb, target, instance_id, reason, detail, result, at, due_at, applied_at)
    SELECT ${action.id}, ${by.tenantId}, ${by.actor}, ${action.verb}, ${action.target}, ${action.instanceId}, ${action.reason},
      ${action.detail ? JSON.stringify(action.detail) : null}, iif(changes() > 0, 'applied', 'no_change'), ${now},
      ${now} + ${KEEPER_PATIENCE_MS},
      iif(changes() > 0 AND ${tellsPlatform ? 1 : 0}, NULL, ${now})
    WHERE true ON CONFLICT (id) DO NOTHING`;
}

/**
 * Audits an action that is done: by somebody who reaches the database itself, in the same transaction, or in an object that keeps what it
 * owes the audit. Repeated, it finds what it wrote.
 */
export function auditDone(by: Operator, action: Action, result: Exclude<ActionResult, "failed"> = "applied"): Statement {
  const { id, verb, target, reason, detail } = action;
  return sql`
    INSERT INTO actions (id, tenant_id, actor, verb, target, reason, detail, result, at, applied_at)
    VALUES (${id}, ${by.tenantId}, ${by.actor}, ${verb}, ${target}, ${reason}, ${detail ? JSON.stringify(detail) : null}, ${result},
      ${now}, ${now})
    ON CONFLICT (id) DO NOTHING`;
}

/** Audits an action that came too late to be begun: what it was about had moved on before. */
export function auditLate(by: Operator, action: Action): Statement {
  return auditDone(by, action, "no_change");
}

/** Audits an action that an object has carried out, or refused, and that it has on record itself until this is written. */
export function auditCarriedOut(by: Operator, { id, verb, target, reason, detail }: Action, result: ActionResult, at: number): Statement {
  return sql`
    INSERT INTO actions (id, tenant_id, actor, verb, target, reason, detail, result, at, applied_at)
    VALUES (${id}, ${by.tenantId}, ${by.actor}, ${verb}, ${target}, ${reason}, ${detail ? JSON.stringify(detail) : null}, ${result},
      ${at}, ${now})
    ON CONFLICT (id) DO NOTHING`;
}

/** Whether the action changed anything: the last statement of its batch. */
export function applied(actionId: string): Statement {
  return sql`SELECT result FROM actions WHERE id = ${actionId}`;
}

/** The condition that an action changed something: what stands behind it in its batch is written only then. */
export function wasApplied(actionId: string): Statement {
  return sql`EXISTS (SELECT 1 FROM actions WHERE id = ${actionId} AND result = 'applied')`;
}

/** How long a promise is in the hands of whoever carries it out: longer than its calls may take together. */
const LEASE_MS = 30_000;
/** The pause after a first failed try; it doubles with each. */
const FIRST_PAUSE_MS = 5000;
/** The platform is asked so often whether it has ended a run that has told its end. */
const ENDING_PAUSE_MS = 10_000;
const MAX_PAUSE_MS = 3_600_000;
/**
 * A retry or an undo that could not be carried out for so long ends as `failed`, where people see it: its workflow was renamed, perhaps. An
 * answer to a question or a doubt never ends so, because nobody could give it again: it is tried once a day.
 */
const GIVE_UP_MS = 86_400_000;
const BEGINS_RUN = fragment("verb IN ('retry', 'undo')");

/**
 * Takes promises for a while, those that nobody else has at hand: two that restart one run would break into its effects. `which` is a
 * condition on `a`. Answers their ids.
 */
export function takeActions(which: Statement): Statement {
  return sql`
    UPDATE actions SET lease_until = ${now} + ${LEASE_MS}
    WHERE lease_until <= ${now} AND id IN (
      SELECT a.id FROM actions a CROSS JOIN instances i ON i.id = a.instance_id WHERE a.applied_at IS NULL AND a.lease_until <= ${now}
        AND ${which})
    RETURNING id`;
}

/** The platform was asked to restart the run that a retry promises. */
export function noteRestarted(id: string): Statement {
  return sql`UPDATE actions SET restarted_at = ${now} WHERE id = ${id}`;
}

/** Promises were kept: the platform has heard of them. */
export function noteKept(ids: readonly string[]): Statement {
  return sql`
    UPDATE actions SET applied_at = ${now}, lease_until = 0, error = NULL
    WHERE id IN ${among(ids)} AND applied_at IS NULL`;
}

/** A promise that could not be kept now. */
interface Failed {
  readonly id: string;
  /** The platform has only to end the run that failed. */
  readonly soon: boolean;
  readonly why: string | null;
}

/** Puts promises off, each by a pause of its own. */
export function putOff(failed: readonly Failed[]): Statement {
  return sql`
    UPDATE actions SET attempts = attempts + 1, lease_until = 0, error = f.value->>'why',
      due_at = ${now} + iif(at <= ${now} - ${GIVE_UP_MS}, ${GIVE_UP_MS}, iif(f.value->>'soon', ${ENDING_PAUSE_MS},
        min(${FIRST_PAUSE_MS} * (1 << min(attempts, 10)), ${MAX_PAUSE_MS})))
    FROM json_each(${JSON.stringify(failed)}) f WHERE actions.id = f.value->>'id' AND applied_at IS NULL`;
}

/** Gives up those that were to begin a run, and that nobody could carry out for a day. */
export function giveUpActions(failed: readonly Failed[]): Statement {
  return sql`
    UPDATE actions SET result = 'failed', applied_at = ${now}
    WHERE id IN (SELECT value->>'id' FROM json_each(${JSON.stringify(failed)})) AND applied_at IS NULL AND at <= ${now} - ${GIVE_UP_MS}
      AND ${BEGINS_RUN}`;
}

/** Removes the old audit. What the platform has not heard of yet stays, however old. Reads a table that grows with people's actions. */
export function removeActions(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM actions WHERE id IN (SELECT id FROM actions WHERE at <= ${now} - ${keepMs} AND applied_at IS NOT NULL LIMIT ${limit})
    RETURNING 1 AS gone`;
}
