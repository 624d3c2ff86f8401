import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { now, type Statement, sql } from "../contract/sql.ts";

/** Who acts, for which tenant, and why. */
export interface Operator {
  tenantId: string;
  /** The token's name, for the audit. */
  actor: string;
}

/** What an operator can do; about an instance, an effect, a dead letter, a batch, a schedule, a brand, a webhook, an article, a token, a person. */
export const VERBS = [
  "retry",
  "confirm",
  "reject",
  "retry_anyway",
  "replay",
  "skip",
  "cancel",
  "schedule",
  "unschedule",
  "pause",
  "resume",
  "run",
  "approve",
  "reject_approval",
  "undo",
  "settings",
  "redeliver",
  "register",
  "change",
  "enable",
  "delete",
  "rotate",
  "end_secret",
  "publish",
  "unpublish",
  "mint",
  "revoke",
  "forget",
  "delete_tenant",
] as const;
type Verb = (typeof VERBS)[number];

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
 * because the database's answer was lost, it finds what it wrote.
 * An applied action that the platform must still hear of stays open (`applied_at` is empty) until it has; the keeper comes for it when whoever promised it had time to.
 */
export function audit(by: Operator, action: Action, tellsPlatform: boolean): Statement {
  return sql`
    INSERT INTO actions (id, tenant_id, actor, verb, target, instance_id, reason, detail, result, at, due_at, applied_at)
    SELECT ${action.id}, ${by.tenantId}, ${by.actor}, ${action.verb}, ${action.target}, ${action.instanceId}, ${action.reason},
      ${action.detail ? JSON.stringify(action.detail) : null}, iif(changes() > 0, 'applied', 'no_change'), ${now}, ${now} + ${KEEPER_PATIENCE_MS},
      iif(changes() > 0 AND ${tellsPlatform ? 1 : 0}, NULL, ${now})
    WHERE true ON CONFLICT (id) DO NOTHING`;
}

/** Whether the action changed anything: the last statement of its batch. */
export function applied(actionId: string): Statement {
  return sql`SELECT result FROM actions WHERE id = ${actionId}`;
}
