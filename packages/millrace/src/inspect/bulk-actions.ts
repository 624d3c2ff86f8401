import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { parseEntryKey } from "../contract/ids.ts";
import { component, redacted, rowOf, timestamp } from "../contract/row.ts";
import { fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { bulkActionId, type Operator } from "../store/actions.ts";
import { IS_LEFT } from "../store/bulk-actions.ts";
import { BULK_RESULTS, type BulkResult } from "../store/bulk-items.ts";
import { namedBatch, positionBy, rowPage, selectRows } from "../store/d1/named.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import { aboutThese } from "./actions.ts";

const STATES = ["running", "complete", "stopped", "aborted"] as const;

/** A bulk action. The fields always satisfy `matched` = `done` + `skipped` + `failed` + `left`. */
export const BulkAction = z.object({
  id: z.string(),
  verb: z.string(),
  state: z
    .enum(STATES)
    .describe("`stopped`: too many items of a stage failed, or its instance failed; see `why`. `aborted`: an operator halted it."),
  why: z.string().nullable().describe("The reason for the stop or the abort, and the next step; null otherwise."),
  actor: z.string(),
  reason: z.string(),
  filter: z.record(z.string(), z.unknown()).nullable().describe("The filter that selected the items; null if the caller gave ids."),
  ramp: z.array(z.int()),
  rate_per_second: z.number(),
  stop_at_error_rate: z.number(),
  settle_within_seconds: z.number(),
  undo: z
    .nullable(z.boolean())
    .describe(
      "True: the bulk action undoes the effects of its instances where possible. False: it keeps them. Null for a verb without undo.",
    ),
  run_at: timestamp.nullable().describe("For `move`: the new due time. Null for other verbs."),
  matched: z.int().describe("The number of items, fixed at `created_at`: the sum of done, skipped, failed and left."),
  done: z.int(),
  skipped: z.int().describe("Items on which the action had nothing to do. The `why` of an item names an earlier action, if any."),
  failed: z.int().describe("Items that were refused, failed again, or have an unknown outcome (`in_doubt`)."),
  remaining: z.int(),
  instance_id: z.string().describe("The instance that runs the bulk action."),
  created_at: timestamp,
  updated_at: timestamp,
  ended_at: timestamp.nullable(),
});
export type BulkAction = z.infer<typeof BulkAction>;

/** With the progress that only the engine reads. */
const StoredBulk = BulkAction.extend({
  looked: z.int(),
  stage: z.object({ from: z.int(), skipped: z.int(), failed: z.int() }),
  /** The ordinal number of the instance that runs the bulk action. Each resume starts a new instance (`instance_id`). */
  pass: z.int(),
  fingerprint: z.string(),
});
export type StoredBulk = z.infer<typeof StoredBulk>;

export const BulkItem = component("BulkItem", {
  n: z.int().describe("The position, starting at 0."),
  target: z.string().describe("The id of the instance, dead letter or delivery, or the key of the effect."),
  instance_id: z.string().nullable().describe("The instance of an effect; null for other items."),
  about: z
    .nullable(z.string())
    .describe(
      "A readable name: workflow and subject of an instance, for an effect with its step in front; type and key of a dead letter. Null for other items and for removed ones.",
    ),
  result: z.enum(BULK_RESULTS),
  code: z.string().nullable(),
  why: z.nullable(z.string()).meta({ description: "The reason why the item was skipped or failed, and the next step.", ...redacted }),
  action_id: z.string().describe("The id of the action in the audit."),
  at: timestamp,
});

export const BulkFilter = z.object({ state: z.enum(STATES).optional() });

/** A running bulk action is shown as stopped once no instance runs it. */
const STOPS = fragment(`b.state = 'running' AND ${IS_LEFT.fragment}`);
const COLUMNS = fragment(`b.id, b.verb, iif(${STOPS.fragment}, 'stopped', b.state) AS state, b.actor, b.reason,
  iif(${STOPS.fragment}, printf('The bulk action has stopped, because the instance that executes it is %s (GET /v1/instances/%s has the reason). '
    || 'Completed items are kept. A resume continues with the remaining items.', coalesce(i.status, 'missing'), b.instance_id), b.why) AS why,
  b.asked->'filter' AS filter, b.asked->'ramp' AS ramp, b.asked->>'rate_per_second' AS rate_per_second,
  b.asked->>'stop_at_error_rate' AS stop_at_error_rate, b.asked->>'settle_within_seconds' AS settle_within_seconds, b.asked->>'undo' AS undo, b.asked->>'run_at' AS run_at,
  b.matched, b.done, b.skipped, b.failed, b.matched - b.done - b.skipped - b.failed AS remaining, b.looked,
  json_object('from', b.stage_from, 'skipped', b.stage_skipped, 'failed', b.stage_failed) AS stage, b.pass, b.instance_id, b.fingerprint,
  b.created_at, b.updated_at, iif(${STOPS.fragment}, b.updated_at, b.ended_at) AS ended_at`);
const ROWS = fragment("millrace_bulk_actions b LEFT JOIN millrace_instances i ON i.id = b.instance_id AND i.tenant_id = b.tenant_id");

export function listBulkActions(env: EngineEnv, by: Operator, filter: z.infer<typeof BulkFilter> & PageRequest): Promise<Page<BulkAction>> {
  return rowPage(BulkAction, filter, positionBy("created_at", "id"), (before, limit) =>
    query(
      env.DB,
      sql`
        SELECT ${COLUMNS} FROM ${ROWS} WHERE b.tenant_id = ${by.tenantId} AND (b.created_at, b.id) < (${before.at}, ${before.id})
          ${filter.state === undefined ? sql`` : sql`AND iif(${STOPS}, 'stopped', b.state) = ${filter.state}`}
        ORDER BY b.created_at DESC, b.id DESC LIMIT ${limit}`,
    ),
  );
}

/** Undefined if the tenant has no such bulk action. */
export async function findBulkAction(env: EngineEnv, by: Pick<Operator, "tenantId">, id: string): Promise<StoredBulk | undefined> {
  const [row] = await selectRows(
    env.DB,
    StoredBulk,
    sql`SELECT ${COLUMNS} FROM ${ROWS} WHERE b.id = ${id} AND b.tenant_id = ${by.tenantId}`,
  );
  return row;
}

/** Errors: `bulk_action_not_found`, also for a bulk action of another tenant. */
export async function storedBulk(env: EngineEnv, by: Pick<Operator, "tenantId">, id: string): Promise<StoredBulk> {
  const found = await findBulkAction(env, by, id);
  if (found) return found;
  throw new MillraceError("bulk_action_not_found", `There is no bulk action ${beginning(id, 64)}. List them with GET /v1/bulk-actions.`);
}

export async function getBulkAction(env: EngineEnv, by: Pick<Operator, "tenantId">, id: string): Promise<BulkAction> {
  return BulkAction.parse(await storedBulk(env, by, id));
}

/** At most `limit` + 1 results after item `behind`, so that the caller can detect a next page. Errors: `bulk_action_not_found`. */
export async function listBulkItems(
  env: EngineEnv,
  by: Operator,
  id: string,
  { result, behind = -1, limit }: { result?: BulkResult | undefined; behind?: number | undefined; limit: number },
): Promise<z.infer<typeof BulkItem>[]> {
  const of = (one: BulkResult): Statement => sql`
    SELECT n, target, result, code, why, at FROM millrace_bulk_items
    WHERE tenant_id = ${by.tenantId} AND bulk_id = ${id} AND result = ${one} AND n > ${behind} ORDER BY n LIMIT ${limit + 1}`;
  const { bulk, items } = await namedBatch(env.DB, {
    bulk: sql`SELECT 1 FROM millrace_bulk_actions WHERE id = ${id} AND tenant_id = ${by.tenantId}`,
    items: (result === undefined ? BULK_RESULTS : [result]).map(of),
  });
  if (bulk.length === 0) await storedBulk(env, by, id);
  const rows = items.map((row) => rowOf(BulkItem, row)).toSorted((a, b) => a.n - b.n);
  const about = await aboutThese(env, by, rows);
  return rows.slice(0, limit + 1).map((row) => ({
    ...row,
    instance_id: parseEntryKey(row.target)?.instanceId ?? null,
    about: about(row),
    action_id: bulkActionId(id, row.target),
  }));
}
