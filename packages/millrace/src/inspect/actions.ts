import type { EngineEnv } from "../contract/bindings.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import type { Action, ActionResult, Operator } from "../store/actions.ts";
import { keysetPage, LOOKED_AT, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

/** One audited operator action. */
export interface AuditRow {
  id: string;
  actor: string;
  /** The token of the request. Null for an operator with another identity, and for actions without a request. */
  tokenId: string | null;
  /** The scopes that the request needed, separated by spaces; null without a request. */
  scope: string | null;
  verb: Action["verb"];
  /** The instance, effect key, approval or dead letter. */
  target: string;
  instanceId: string | null;
  reason: string;
  detail: Record<string, unknown> | null;
  /** The target's state before the action. Null if nothing changed or the state was not recorded. */
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  /**
   * `no_change`: the target was already in that state, or another action came first · `failed`: the platform could not be called within a
   * day · `refused`: not begun; `detail` has the error code and the number of refusals in that minute.
   */
  result: ActionResult;
  at: number;
  /** When the action was carried out on the platform; null while it is open. */
  appliedAt: number | null;
  /** The error of the last call of the platform; null once carried out. */
  error: string | null;
}

export interface AuditFilter extends PageRequest {
  target?: string | undefined;
  /** The affected instance. Also matches actions on its effects and questions. */
  instance?: string | undefined;
  result?: ActionResult | undefined;
  /** The exact name of a token or operator. */
  actor?: string | undefined;
  verb?: string | undefined;
  /** Milliseconds since the epoch: `since` or later, and before `until`. */
  since?: number | undefined;
  until?: number | undefined;
  /** False leaves out the actions of bulk actions on single items. The rows of the bulk actions themselves remain. */
  bulk?: boolean | undefined;
}

const COLUMNS =
  fragment(`id, actor, token_id AS tokenId, scope, verb, target, instance_id, reason, detail, before, after, result, at, applied_at,
  error`);

/** The tenant's actions, newest first. With several filters a page may be short and still have a next page. */
export function listActions(env: EngineEnv, by: Operator, filter: AuditFilter): Promise<Page<AuditRow>> {
  const { since = 0, until = Number.MAX_SAFE_INTEGER } = filter;
  return keysetPage(filter, identity, async (before, limit) => {
    const from = before.at < until ? before : { at: until, id: "" };
    const behind = sql`
      ${whereActionsAre(filter)} AND tenant_id = ${by.tenantId} AND (at, id) < (${from.at}, ${from.id}) AND at >= ${since}
      ORDER BY at DESC, id DESC`;
    const rows = await query(
      env.DB,
      sql`
        SELECT * FROM (SELECT ${COLUMNS} FROM millrace_actions ${behind} LIMIT ${LOOKED_AT})
        WHERE true ${andEquals(fragment("target"), filter.target)} ${andEquals(fragment("result"), filter.result)}
          ${andEquals(fragment("actor"), filter.actor)} ${andEquals(fragment("verb"), filter.verb)}
        ORDER BY at DESC, id DESC LIMIT ${limit}`,
    );
    if (rows.length >= limit || !isLookedFor(filter)) return rows.map(asRow);
    const [end] = await query<Position>(env.DB, sql`SELECT at, id FROM millrace_actions ${behind} LIMIT 1 OFFSET ${LOOKED_AT - 1}`);
    return { found: rows.map(asRow), end };
  });
}

/** True if an index serves one filter only and the rows must be checked for the others. */
function isLookedFor({ instance, target, bulk, actor, verb, result }: AuditFilter): boolean {
  const byIndex = instance !== undefined || target !== undefined || bulk === false;
  const others = [actor, verb, result, ...(instance === undefined ? [] : [target])];
  return others.filter((one) => one !== undefined).length > (byIndex ? 0 : 1);
}

/** Selects the index with the fewest rows. Items of bulk actions are many; other actions are few. */
function whereActionsAre({ instance, target, bulk, actor, verb, result }: AuditFilter): Statement {
  if (instance !== undefined && bulk === false)
    return sql`INDEXED BY millrace_actions_by_instance WHERE instance_id = ${instance} AND detail->>'bulk' IS NULL`;
  if (instance !== undefined) return sql`INDEXED BY millrace_actions_by_instance WHERE instance_id = ${instance}`;
  if (target !== undefined && bulk === false)
    return sql`INDEXED BY millrace_actions_by_target
    WHERE target = ${target} AND detail->>'bulk' IS NULL`;
  if (target !== undefined) return sql`INDEXED BY millrace_actions_by_target WHERE target = ${target}`;
  if (bulk === false) return sql`INDEXED BY millrace_actions_by_themselves WHERE detail->>'bulk' IS NULL`;
  if (verb !== undefined) return sql`INDEXED BY millrace_actions_by_verb WHERE verb = ${verb}`;
  if (actor !== undefined) return sql`INDEXED BY millrace_actions_by_actor WHERE actor = ${actor}`;
  if (result !== undefined) return sql`INDEXED BY millrace_actions_by_result WHERE result = ${result}`;
  return sql`INDEXED BY millrace_actions_by_time WHERE true`;
}

export async function actionsNamed(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<AuditRow[]> {
  const rows = await query(env.DB, sql`SELECT ${COLUMNS} FROM millrace_actions WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`);
  return rows.map(asRow);
}

/**
 * True if an operator has retried an instance at or after `at`, in milliseconds by the database's clock. For a step that continues only
 * after an operator's decision. Once true, it remains true for the retention of the audit.
 */
export async function retriedSince(env: EngineEnv, tenantId: string, instanceId: string, at: number): Promise<boolean> {
  const found = await query(
    env.DB,
    sql`
      SELECT 1 FROM millrace_actions
      WHERE tenant_id = ${tenantId} AND at >= ${at} AND instance_id = ${instanceId} AND verb = 'retry' AND result = 'applied' LIMIT 1`,
  );
  return found.length > 0;
}

const identity = ({ at, id }: AuditRow) => ({ at, id });

function asRow(row: Record<string, unknown>): AuditRow {
  return {
    id: String(row.id),
    actor: String(row.actor),
    tokenId: row.tokenId as string | null,
    scope: row.scope as string | null,
    verb: row.verb as AuditRow["verb"],
    target: String(row.target),
    instanceId: row.instance_id as string | null,
    reason: String(row.reason),
    detail: asObject(row.detail),
    before: asObject(row.before),
    after: asObject(row.after),
    result: row.result as AuditRow["result"],
    at: Number(row.at),
    appliedAt: row.applied_at === null || row.result === "failed" ? null : Number(row.applied_at),
    error: row.error as string | null,
  };
}

const asObject = (json: unknown): Record<string, unknown> | null => (json ? (JSON.parse(String(json)) as Record<string, unknown>) : null);
