import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { askerOf } from "../signals/approval.ts";
import type { Operator } from "../store/actions.ts";
import { type ApprovalState, OVER_AS, SOMEBODY_WAITS } from "../store/approvals.ts";
import { keysetPage, LOOKED_AT, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

export interface ApprovalRow {
  id: string;
  instanceId: string;
  workflow: string;
  step: string;
  question: string;
  details: Record<string, unknown> | null;
  state: ApprovalState;
  /** The status of the instance if a pending question has lost its run; null otherwise. */
  over: string | null;
  /** The decision without an answer until `dueAt`. */
  otherwise: "approve" | "reject";
  dueAt: number;
  /** Null without an answer. */
  decidedBy: string | null;
  reason: string | null;
  askedAt: number;
  decidedAt: number | null;
}

export interface ApprovalFilter extends PageRequest {
  state?: ApprovalRow["state"] | undefined;
  workflow?: string | undefined;
  instance?: string | undefined;
}

/** The tenant's questions, newest first. By workflow or state, a page may be short and still have a next page. */
export function listApprovals(env: EngineEnv, by: Operator, filter: ApprovalFilter): Promise<Page<ApprovalRow>> {
  return keysetPage(
    filter,
    ({ askedAt, id }) => ({ at: askedAt, id }),
    async (before, limit) => {
      const behind = sql`${whereTheyAre(by, filter)} AND (asked_at, id) < (${before.at}, ${before.id}) ORDER BY asked_at DESC, id DESC`;
      const rows = await query(
        env.DB,
        sql`
          SELECT *, ${OVER_AS} AS over FROM (
            SELECT * FROM (SELECT * FROM millrace_approvals ${behind} LIMIT ${LOOKED_AT})
            WHERE true ${andEquals(fragment("state"), filter.state)} ${andEquals(fragment("workflow"), filter.workflow)}
            ORDER BY asked_at DESC, id DESC LIMIT ${limit})
          ORDER BY asked_at DESC, id DESC`,
      );
      if (rows.length >= limit || !isLookedFor(filter)) return rows.map(asRow);
      const [end] = await query<Position>(
        env.DB,
        sql`SELECT asked_at AS at, id
        FROM millrace_approvals ${behind} LIMIT 1 OFFSET ${LOOKED_AT - 1}`,
      );
      return { found: rows.map(asRow), end };
    },
  );
}

function isLookedFor({ instance, state, workflow }: ApprovalFilter): boolean {
  return instance === undefined && (workflow !== undefined || (state !== undefined && state !== "pending"));
}

/**
 * Selects the index with the fewest rows: by instance; of open questions; or by tenant and time. The condition of the partial index is
 * literal text, because SQLite does not match it with a bound value.
 */
function whereTheyAre(by: Operator, { instance, state }: ApprovalFilter): Statement {
  if (instance !== undefined && state === "pending") {
    return sql`WHERE instance_id = ${instance} AND +tenant_id = ${by.tenantId} AND ${SOMEBODY_WAITS}`;
  }
  if (instance !== undefined) return sql`WHERE instance_id = ${instance} AND +tenant_id = ${by.tenantId}`;
  if (state === "pending") {
    return sql`
      INDEXED BY millrace_approvals_pending WHERE state = 'pending' AND tenant_id = ${by.tenantId} AND ${SOMEBODY_WAITS}`;
  }
  return sql`INDEXED BY millrace_approvals_by_time WHERE tenant_id = ${by.tenantId}`;
}

/** One question. Errors: `approval_not_found`, also for another tenant's. */
export async function getApproval(env: EngineEnv, by: Operator, id: string): Promise<ApprovalRow> {
  return approvalIn(await query(env.DB, selectApproval(by, id)));
}

export function selectApproval(by: Operator, id: string): Statement {
  return sql`
    SELECT *, ${OVER_AS} AS over FROM millrace_approvals WHERE instance_id = ${askerOf(id)} AND id = ${id} AND tenant_id = ${by.tenantId}`;
}

export async function approvalsNamed(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<ApprovalRow[]> {
  const rows = await query(
    env.DB,
    sql`
      SELECT *, ${OVER_AS} AS over FROM millrace_approvals
      WHERE instance_id IN ${among(ids.map(askerOf))} AND +id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  );
  return rows.map(asRow);
}

export function approvalIn([row]: Record<string, unknown>[]): ApprovalRow {
  if (!row)
    throw new MillraceError("approval_not_found", "There is no such approval. List open approvals with GET /v1/approvals?state=pending.");
  return asRow(row);
}

function asRow(row: Record<string, unknown>): ApprovalRow {
  return {
    id: String(row.id),
    instanceId: String(row.instance_id),
    workflow: String(row.workflow),
    step: String(row.step),
    question: String(row.question),
    details: row.details === null ? null : (JSON.parse(String(row.details)) as Record<string, unknown>),
    state: row.state as ApprovalRow["state"],
    over: row.over as string | null,
    otherwise: row.otherwise as ApprovalRow["otherwise"],
    dueAt: Number(row.due_at),
    decidedBy: row.decided_by as string | null,
    reason: row.reason as string | null,
    askedAt: Number(row.asked_at),
    decidedAt: row.decided_at === null ? null : Number(row.decided_at),
  };
}
