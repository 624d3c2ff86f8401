import { MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { among, type Fragment, fragment, now, type Statement, sql } from "../contract/sql.ts";

/** Who acts, for which tenant, and why. */
export interface Operator {
  tenantId: string;
  /** The token's name, for the audit. */
  actor: string;
  /** The token itself; none where a person is known otherwise, or the database is reached directly. */
  tokenId?: string | undefined;
  /** What of the token's scopes the request needed, separated by spaces. */
  scope?: string | undefined;
  /** Where a bulk action acts in the operator's name: which one, and what its action on this one thing is called. */
  bulk?: { readonly id: string; readonly actionId: string };
}

/** The part of a caller that the audit keeps. */
export function operatorOf({ tenantId, actor, tokenId, scope, bulk }: Operator): Operator {
  return { tenantId, actor, tokenId, scope, bulk };
}

/** What an operator's action is called: a name of its own, or the one by which a bulk action finds that it has acted. */
export function actionIdOf({ bulk }: Operator): string {
  return bulk?.actionId ?? crypto.randomUUID();
}

/** The name of a bulk action's action on one thing: the same however often its chunk is repeated. */
export function bulkActionId(bulkId: string, target: string): string {
  return digest("bulk item", bulkId, target);
}

/** The actions of operators: on an instance, an effect, a dead letter, a schedule, an approval, a token, a lock or an alert. */
export const VERBS = [
  "retry",
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
  "undo",
  "retry_head",
  "skip_head",
  "mint",
  "revoke",
  "break",
  "mute",
  "unmute",
  "attempt",
  "bulk",
  "abort",
  "reveal",
  "cancel",
  "restart",
  "skip_step",
  "signal",
  "close",
] as const;

/** The engine's verbs, and an app's own. */
type Verb = (typeof VERBS)[number] | (string & {});

/**
 * What came of an action: `no_change` where there was nothing to do, `failed` where it could not be carried out for a day, `refused` where
 * it was not begun.
 */
export type ActionResult = "applied" | "no_change" | "failed" | "refused";

/** What an action has changed, as small as it can be said: a status, a setting. No payload, and nothing secret. */
type Standing = Readonly<Record<string, unknown>>;

/** One operator action as it is recorded. */
export interface Action {
  id: string;
  verb: Verb;
  target: string;
  instanceId: string | null;
  reason: string;
  detail?: Record<string, unknown>;
  /** A query for a JSON object. Its fields are added to the detail when the row is written. */
  found?: Statement | undefined;
  /** How its target stood; kept where the action was applied. */
  before?: Standing | undefined;
  /** How it stands by the action. */
  after?: Standing | undefined;
}

const COLUMNS = fragment(
  `id, tenant_id, actor, token_id, scope, verb, target, instance_id, reason, detail, before, after, result, at, due_at, applied_at`,
);

/** The values of an action's first columns. */
function said({ tenantId, actor, tokenId, scope }: Operator, { id, verb, target, instanceId, reason, detail, found }: Action): Statement {
  return sql`${id}, ${tenantId}, ${actor}, ${tokenId ?? null}, ${scope ?? null}, ${verb}, ${target}, ${instanceId}, ${reason},
    ${found ? withFound(detail, found) : asJson(detail)}`;
}

const withFound = (detail: object | undefined, found: Statement): Statement => sql`json_patch(${asJson(detail ?? {})}, (${found}))`;
const asJson = (value: object | undefined): string | null => (value ? JSON.stringify(value) : null);

/**
 * Audits an action, right behind the statement that carries it out: whether that one changed anything is the action's result. Repeated,
 * because the database's answer was lost, it finds what it wrote. An applied action that the platform must still hear of stays open
 * (`applied_at` is empty) until it has; the keeper comes for it when whoever promised it had time to. One of a bulk action that is on
 * record already refuses its whole batch (`isOnRecord`): what it is about may ask for the same again by now. `provided` says what must be so
 * for there to be a row at all. Errors: `invariant` for one that does not bear the name that its bulk action gave it.
 */
export function audit(by: Operator, action: Action, tellsPlatform: boolean, provided: Statement = sql`true`): Statement {
  const { bulk } = by;
  if (bulk && action.id !== bulk.actionId) {
    throw new MillraceError("invariant", `The action ${action.verb} of a bulk action has a name of its own: let actionIdOf(by) name it.`);
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

/** True for the refusal of a bulk action's action that is on record already. */
export function isOnRecord(error: unknown): boolean {
  return error instanceof Error && error.message.includes("UNIQUE constraint failed: millrace_actions.id");
}

/** What is on record of actions, by their ids. */
export function selectResults(tenantId: string, ids: readonly string[]): Statement {
  return sql`SELECT id, result FROM millrace_actions WHERE id IN ${among(ids)} AND +tenant_id = ${tenantId}`;
}

/**
 * Audits an action that is done: in the same transaction, or in an object that keeps what it owes the audit. Repeated, it finds what it
 * wrote. It may precede the statement that carries the action out: `provided` is the condition for a row.
 */
export function auditDone(by: Operator, action: Action, result: ActionResult = "applied", provided: Statement = sql`true`): Statement {
  const [before, after] = result === "applied" ? [action.before, action.after] : [];
  return sql`
    INSERT INTO millrace_actions (${COLUMNS})
    SELECT ${said(by, action)}, ${asJson(before)}, ${asJson(after)}, ${result}, ${now}, 0, ${now} WHERE ${provided}
    ON CONFLICT (id) DO NOTHING`;
}

/** Audits an action that came too late to be begun: what it was about had moved on before. */
export function auditLate(by: Operator, action: Action): Statement {
  return auditDone(by, action, "no_change");
}

/** Whether the action changed anything: the last statement of its batch. */
export function applied(actionId: string): Statement {
  return sql`SELECT result FROM millrace_actions WHERE id = ${actionId}`;
}

/** The condition that an action changed something: what stands behind it in its batch is written only then. */
export function wasApplied(actionId: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_actions WHERE id = ${actionId} AND result = 'applied')`;
}

/** When an act has begun that run of an instance. */
export function selectRunBegun(tenantId: string, instanceId: string, run: number): Statement {
  return sql`
    SELECT max(at) AS at FROM millrace_actions INDEXED BY millrace_actions_by_instance
    WHERE tenant_id = ${tenantId} AND instance_id = ${instanceId} AND result = 'applied' AND detail->>'run' = ${run}`;
}

/** When an action was asked for. */
export function selectAskedAt(id: string | null): Statement {
  return sql`SELECT at FROM millrace_actions WHERE id = ${id}`;
}

/** An action has cut off these steps of the run before it: kept beside what the audit says of it, which does not change. */
export function noteCutOff(id: string, labels: readonly string[]): Statement {
  return sql`UPDATE millrace_actions SET cut_off = ${JSON.stringify(labels)} WHERE id = ${id}`;
}

/**
 * The steps that were cut off before an undo began (its action's id, which may be a cancel), by itself or by another action: what has been
 * recorded of such a step since has its entry. What an earlier undo has taken back begins anew. Each with the time at which that undo was
 * asked for.
 */
export function selectCutOff(undo: string | null): Statement {
  return cutOffBefore(sql`SELECT tenant_id, target, at, detail->>'run' AS run FROM millrace_actions WHERE id = ${undo}`);
}

/** The same for an undo that is not begun yet. */
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

/** How long a promise is in the hands of whoever carries it out: longer than its calls may take together. */
const LEASE_MS = 30_000;
/** The pause after a first failed try; it doubles with each. */
const FIRST_PAUSE_MS = 5000;
/** The platform is asked so often whether it has ended a run that has told its end. */
const ENDING_PAUSE_MS = 10_000;
const MAX_PAUSE_MS = 3_600_000;
/**
 * What begins a run, such as a retry, and could not be carried out for so long ends as `failed`, where people see it: its workflow was
 * renamed, perhaps. An answer to a question or a doubt never ends so, because nobody could give it again: it is tried once a day.
 */
const GIVE_UP_MS = 86_400_000;
const BEGINS_RUN = fragment("verb IN ('retry', 'undo', 'cancel', 'restart', 'skip_step')");

/**
 * Takes promises for a while, those that nobody else has at hand: two that restart one run would break into its effects. `which` is a
 * condition on `a`. Answers their ids.
 */
export function takeActions(which: Statement): Statement {
  return sql`
    UPDATE millrace_actions SET lease_until = ${now} + ${LEASE_MS}
    WHERE lease_until <= ${now} AND id IN (
      SELECT a.id FROM millrace_actions a CROSS
        JOIN millrace_instances i ON i.id = a.instance_id WHERE a.applied_at IS NULL AND a.lease_until <= ${now}
        AND ${which})
    RETURNING id`;
}

/**
 * The condition that what an instance did is being taken back, or is: the run before is over, and the undo looks at what there is. Of the
 * instance that an expression names.
 */
export function isUndoBegun(instanceId: string): Fragment {
  return fragment(`EXISTS (SELECT 1 FROM millrace_instances i CROSS JOIN millrace_actions a ON a.id = i.undo
    WHERE i.id = ${instanceId} AND a.restarted_at IS NOT NULL)`);
}

/**
 * The run that an action promises begins: the run before is over on the platform. Of a retry or a restart once the platform was asked for
 * it; of an undo (also a cancel's) before that, because from then on no commit of the run before is recorded (`isUndoBegun`).
 */
export function noteRunBegun(id: string): Statement {
  return sql`UPDATE millrace_actions SET restarted_at = ${now} WHERE id = ${id}`;
}

/** Promises were kept: the platform has heard of them. */
export function noteKept(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_actions SET applied_at = ${now}, lease_until = 0, error = NULL
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
    UPDATE millrace_actions SET attempts = attempts + 1, lease_until = 0, error = f.value->>'why',
      due_at = ${now} + iif(at <= ${now} - ${GIVE_UP_MS}, ${GIVE_UP_MS}, iif(f.value->>'soon', ${ENDING_PAUSE_MS},
        min(${FIRST_PAUSE_MS} * (1 << min(attempts, 10)), ${MAX_PAUSE_MS})))
    FROM json_each(${JSON.stringify(failed)}) f WHERE millrace_actions.id = f.value->>'id' AND applied_at IS NULL`;
}

/** Gives up those that were to begin a run, and that nobody could carry out for a day. */
export function giveUpActions(failed: readonly Failed[]): Statement {
  return sql`
    UPDATE millrace_actions SET result = 'failed', applied_at = ${now}
    WHERE id IN (SELECT value->>'id' FROM json_each(${JSON.stringify(failed)})) AND applied_at IS NULL AND at <= ${now} - ${GIVE_UP_MS}
      AND ${BEGINS_RUN}`;
}

/**
 * The old audit. What the platform has not heard of yet stays, however old. Reads a table that grows with people's actions.
 */
export function selectOldActions(keepMs: number, limit: number): Statement {
  return sql`SELECT id FROM millrace_actions WHERE at <= ${now} - ${keepMs} AND applied_at IS NOT NULL LIMIT ${limit}`;
}

/** Removes rows of the audit, which has to be open for that. */
export function removeActions(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_actions WHERE id IN ${among(ids)}`;
}
