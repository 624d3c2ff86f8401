import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { KNOWN_NAMES } from "../contract/known-fields.ts";
import { component, redacted, rowOf, timestamp } from "../contract/row.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { askerOf } from "../signals/approval.ts";
import type { Operator } from "../store/actions.ts";
import { OVER_AS, SOMEBODY_WAITS } from "../store/approvals.ts";
import { positionBy, rowPage, selectRows } from "../store/d1/named.ts";
import { LOOKED_AT, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

const STATES = ["pending", "approved", "rejected"] as const;

export const ApprovalRow = component("Approval", {
  id: z.string(),
  instance_id: z.string(),
  workflow: z.string(),
  step: z.string(),
  question: z.string().meta({ description: "The question. Plain text: never render it as HTML.", ...redacted }),
  details: z.nullable(z.record(z.string(), z.unknown())).meta({ description: "Details for the decision.", ...redacted }),
  state: z.enum(STATES),
  ended_as: z
    .nullable(z.string())
    .describe(
      "For a pending question that can no longer be answered: the status of its instance, such as `terminated`. Otherwise null. `?state=pending` omits such questions.",
    ),
  otherwise: z.enum(["approve", "reject"]).describe("The decision if no answer arrives before `due_at`."),
  due_at: timestamp,
  decided_by: z.string().nullable().describe("The actor who answered; null without an answer."),
  reason: z.string().nullable(),
  asked_at: timestamp,
  decided_at: timestamp.nullable(),
});
export type ApprovalRow = z.infer<typeof ApprovalRow>;

export const ApprovalFilter = z.object({
  state: z.enum(STATES).optional(),
  workflow: z.string().optional().describe(KNOWN_NAMES),
  instance: z.string().optional().describe("The id of the asking instance."),
});
export type ApprovalFilter = z.infer<typeof ApprovalFilter> & PageRequest;

/** Newest first. A page that is filtered by workflow or state may be short and still have a next page. */
export function listApprovals(env: EngineEnv, by: Operator, filter: ApprovalFilter): Promise<Page<ApprovalRow>> {
  return rowPage(ApprovalRow, filter, positionBy("asked_at", "id"), async (before, limit) => {
    const behind = sql`${whereTheyAre(by, filter)} AND (asked_at, id) < (${before.at}, ${before.id}) ORDER BY asked_at DESC, id DESC`;
    const rows = await query(
      env.DB,
      sql`
        SELECT *, ${OVER_AS} AS ended_as FROM (
          SELECT * FROM (SELECT * FROM millrace_approvals ${behind} LIMIT ${LOOKED_AT})
          WHERE true ${andEquals(fragment("state"), filter.state)} ${andEquals(fragment("workflow"), filter.workflow)}
          ORDER BY asked_at DESC, id DESC LIMIT ${limit})
        ORDER BY asked_at DESC, id DESC`,
    );
    if (rows.length >= limit || !isLookedFor(filter)) return rows;
    const [end] = await query<Position>(
      env.DB,
      sql`SELECT asked_at AS at, id FROM millrace_approvals ${behind} LIMIT 1 OFFSET ${LOOKED_AT - 1}`,
    );
    return { found: rows, end };
  });
}

function isLookedFor({ instance, state, workflow }: ApprovalFilter): boolean {
  return instance === undefined && (workflow !== undefined || (state !== undefined && state !== "pending"));
}

/** Selects the index with the fewest rows. SQLite matches the condition of a partial index only with a literal. */
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

/** Errors: `approval_not_found`, also for a question of another tenant. */
export async function getApproval(env: EngineEnv, by: Operator, id: string): Promise<ApprovalRow> {
  return approvalIn(await query(env.DB, selectApproval(by, id)));
}

export function selectApproval(by: Operator, id: string): Statement {
  return sql`
    SELECT *, ${OVER_AS} AS ended_as FROM millrace_approvals
    WHERE instance_id = ${askerOf(id)} AND id = ${id} AND tenant_id = ${by.tenantId}`;
}

export function approvalsNamed(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<ApprovalRow[]> {
  return selectRows(
    env.DB,
    ApprovalRow,
    sql`
      SELECT *, ${OVER_AS} AS ended_as FROM millrace_approvals
      WHERE instance_id IN ${among(ids.map(askerOf))} AND +id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  );
}

export function approvalIn([row]: Record<string, unknown>[]): ApprovalRow {
  if (row) return rowOf(ApprovalRow, row);
  throw new MillraceError("approval_not_found", "There is no such approval. List open approvals with GET /v1/approvals?state=pending.");
}
