import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { bulkActionId, type Operator } from "../store/actions.ts";
import { type BulkAsked, type BulkState, IS_LEFT } from "../store/bulk-actions.ts";
import { BULK_RESULTS, type BulkResult } from "../store/bulk-items.ts";
import { namedBatch } from "../store/d1/named.ts";
import { keysetPage, type Page, type PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

/** A bulk action: always matched = done + skipped + failed + left. */
export interface BulkRow {
  id: string;
  verb: string;
  state: BulkState;
  /** The reason for the stop, or the name of the operator who halted it. */
  why: string | null;
  actor: string;
  reason: string;
  asked: BulkAsked;
  matched: number;
  done: number;
  skipped: number;
  failed: number;
  left: number;
  looked: number;
  stage: { from: number; skipped: number; failed: number };
  /** The current pass, and its instance. */
  pass: number;
  instanceId: string;
  fingerprint: string;
  createdAt: number;
  updatedAt: number;
  endedAt: number | null;
}

export interface BulkItemRow {
  n: number;
  target: string;
  result: BulkResult;
  code: string | null;
  why: string | null;
  at: number;
  actionId: string;
}

/** Shown as stopped once no instance runs it. */
const COLUMNS = fragment(`b.*, i.status AS run_status, iif(b.state = 'running' AND ${IS_LEFT.fragment}, 'stopped', b.state) AS shown`);
const ROWS = fragment("millrace_bulk_actions b LEFT JOIN millrace_instances i ON i.id = b.instance_id AND i.tenant_id = b.tenant_id");

export interface BulkFilter extends PageRequest {
  state?: BulkState | undefined;
}

export function listBulkActions(env: EngineEnv, by: Operator, filter: BulkFilter): Promise<Page<BulkRow>> {
  return keysetPage(
    filter,
    ({ createdAt, id }) => ({ at: createdAt, id }),
    async (before, limit) => {
      const rows = await query(
        env.DB,
        sql`
          SELECT ${COLUMNS} FROM ${ROWS} WHERE b.tenant_id = ${by.tenantId} AND (b.created_at, b.id) < (${before.at}, ${before.id})
            ${filter.state === undefined ? sql`` : sql`AND shown = ${filter.state}`}
          ORDER BY b.created_at DESC, b.id DESC LIMIT ${limit}`,
      );
      return rows.map(asBulk);
    },
  );
}

/** Undefined if the tenant has no such bulk action. */
export async function findBulkAction(env: EngineEnv, by: Pick<Operator, "tenantId">, id: string): Promise<BulkRow | undefined> {
  const [row] = await query(env.DB, sql`SELECT ${COLUMNS} FROM ${ROWS} WHERE b.id = ${id} AND b.tenant_id = ${by.tenantId}`);
  return row && asBulk(row);
}

/** Errors: `bulk_action_not_found`, also for another tenant's. */
export async function getBulkAction(env: EngineEnv, by: Pick<Operator, "tenantId">, id: string): Promise<BulkRow> {
  const found = await findBulkAction(env, by, id);
  if (found) return found;
  throw new MillraceError("bulk_action_not_found", `There is no bulk action ${beginning(id, 64)}. List them with GET /v1/bulk-actions.`);
}

/**
 * Results after a place, in the order of the actions; returns one more than requested. Each result is read from its own part of the index.
 * Errors: `bulk_action_not_found`.
 */
export async function listBulkItems(
  env: EngineEnv,
  by: Operator,
  id: string,
  { result, behind = -1, limit }: { result?: BulkResult | undefined; behind?: number | undefined; limit: number },
): Promise<BulkItemRow[]> {
  const of = (one: BulkResult): Statement => sql`
    SELECT n, target, result, code, why, at FROM millrace_bulk_items
    WHERE tenant_id = ${by.tenantId} AND bulk_id = ${id} AND result = ${one} AND n > ${behind} ORDER BY n LIMIT ${limit + 1}`;
  const { bulk, items } = await namedBatch(env.DB, {
    bulk: sql`SELECT 1 FROM millrace_bulk_actions WHERE id = ${id} AND tenant_id = ${by.tenantId}`,
    items: (result === undefined ? BULK_RESULTS : [result]).map(of),
  });
  if (bulk.length === 0) await getBulkAction(env, by, id);
  const rows = items as unknown as Omit<BulkItemRow, "actionId">[];
  return rows
    .toSorted((a, b) => a.n - b.n)
    .slice(0, limit + 1)
    .map((row) => ({ ...row, actionId: bulkActionId(id, row.target) }));
}

function asBulk(row: Record<string, unknown>): BulkRow {
  const number = (column: string) => Number(row[column] ?? 0);
  const [matched, done, skipped, failed] = [number("matched"), number("done"), number("skipped"), number("failed")];
  const isLeft = row.shown !== row.state;
  return {
    id: String(row.id),
    verb: String(row.verb),
    state: row.shown as BulkState,
    why: isLeft
      ? `The bulk action has stopped, because the instance that executes it is ${row.run_status ?? "missing"} (GET /v1/instances/${row.instance_id} has the reason). Completed items are kept. A resume continues with the remaining items.`
      : (row.why as string | null),
    actor: String(row.actor),
    reason: String(row.reason),
    asked: JSON.parse(String(row.asked)) as BulkAsked,
    matched,
    done,
    skipped,
    failed,
    left: matched - done - skipped - failed,
    looked: number("looked"),
    stage: { from: number("stage_from"), skipped: number("stage_skipped"), failed: number("stage_failed") },
    pass: number("pass"),
    instanceId: String(row.instance_id),
    fingerprint: String(row.fingerprint),
    createdAt: number("created_at"),
    updatedAt: number("updated_at"),
    endedAt: isLeft ? number("updated_at") : (row.ended_at as number | null),
  };
}
