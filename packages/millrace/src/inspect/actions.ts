import type { EngineEnv } from "../contract/bindings.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import type { Action, ActionResult, Operator } from "../store/actions.ts";
import { keysetPage, LOOKED_AT, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

/** One operator action, as people read it. */
export interface AuditRow {
  id: string;
  actor: string;
  /** The token that was used; null for a person who is known otherwise, and for what was done at the database itself. */
  tokenId: string | null;
  /** The scopes that the request needed, separated by spaces; null for what came by no request. */
  scope: string | null;
  verb: Action["verb"];
  /** The instance, effect key, approval or dead letter it was about. */
  target: string;
  instanceId: string | null;
  reason: string;
  detail: Record<string, unknown> | null;
  /** How its target stood; null where nothing changed, or nothing is said of it. */
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  /**
   * `no_change` when somebody else had been faster, or there was nothing to do; `failed` when the platform could not be told within a day;
   * `refused` when it was not begun: `detail` says by which code, and how often in that minute.
   */
  result: ActionResult;
  at: number;
  /** When the platform had heard of it too; null while the keeper still owes that. */
  appliedAt: number | null;
  /** What the last try to tell the platform failed of; null once it has heard. */
  error: string | null;
}

export interface AuditFilter extends PageRequest {
  /** What it was about, in full. */
  target?: string | undefined;
  /** The instance that it moved: also what was about one of its effects, or of its questions. */
  instance?: string | undefined;
  result?: ActionResult | undefined;
  /** Who acted, in full: a token's name. */
  actor?: string | undefined;
  verb?: string | undefined;
  /** Milliseconds since the epoch: then or later, and before then. */
  since?: number | undefined;
  until?: number | undefined;
  /** False: without what bulk actions did to each of their things. Their own rows stay. */
  bulk?: boolean | undefined;
}

const COLUMNS =
  fragment(`id, actor, token_id AS tokenId, scope, verb, target, instance_id, reason, detail, before, after, result, at, applied_at,
  error`);

/** What the tenant's operators did, newest first. By several filters at once a page may be short and still have a next one. */
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

/** True where the index has one filter, and the rows are picked by another. */
function isLookedFor({ instance, target, bulk, actor, verb, result }: AuditFilter): boolean {
  const byIndex = instance !== undefined || target !== undefined || bulk === false;
  const others = [actor, verb, result, ...(instance === undefined ? [] : [target])];
  return others.filter((one) => one !== undefined).length > (byIndex ? 0 : 1);
}

/** The index with the fewest rows, and what it is read by: things acted upon in bulk are many, what else a person does is little. */
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

/** Those of the tenant's actions that are named. */
export async function actionsNamed(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<AuditRow[]> {
  const rows = await query(env.DB, sql`SELECT ${COLUMNS} FROM millrace_actions WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`);
  return rows.map(asRow);
}

/**
 * Whether an operator has retried an instance at or after a moment by the database's clock, in milliseconds: for a step that goes on only
 * at a person's word. Once true, it stays true for as long as the audit is kept.
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
