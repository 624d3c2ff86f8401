import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { parseEntryKey } from "../contract/ids.ts";
import { timestamp } from "../contract/row.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { positionBy, rowPage, selectRows } from "../store/d1/named.ts";
import { LOOKED_AT, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

const RESULTS = ["applied", "no_change", "failed", "refused"] as const;

export const AuditRow = z.object({
  id: z.string().describe("The `action_id` in the answer to the action."),
  actor: z.string(),
  token_id: z
    .nullable(z.string())
    .describe("The token of the request; null for a user of Cloudflare Access and for direct database access."),
  scope: z.string().nullable().describe("The required scopes, separated by spaces."),
  verb: z.string(),
  target: z
    .string()
    .describe("The target: an instance, the key of an effect, an approval, a dead letter, a schedule, a token, or an item of the app."),
  about: z
    .nullable(z.string())
    .describe(
      "A readable name of the target: workflow and subject of an instance, for an effect with its step in front; type and key of a dead letter. Null for other targets and for removed ones.",
    ),
  instance_id: z.string().nullable(),
  reason: z.string(),
  detail: z.record(z.string(), z.unknown()).nullable(),
  before: z.record(z.string(), z.unknown()).nullable().describe("The target before the action; null if nothing changed or was recorded."),
  after: z.record(z.string(), z.unknown()).nullable().describe("The target after the action."),
  result: z
    .enum(RESULTS)
    .describe(
      "`failed`: the platform did not accept the action within a day. `refused`: the action did not start; `detail` has the route, the code and the count in that minute (of many refusals, the first, tenth, hundredth … is a row).",
    ),
  at: timestamp,
  applied_at: timestamp.nullable().describe("When the platform accepted the action; null while that is pending."),
  error: z.string().nullable().describe("The error of the last attempt to apply the action on the platform."),
});
export type AuditRow = z.infer<typeof AuditRow>;

const offsetTime = z.iso.datetime({ offset: true }).optional();

export const AuditFilter = z.object({
  target: z.string().max(500).optional().describe("The exact target."),
  instance: z.string().max(500).optional().describe("An instance id: actions on this instance, its effects and its questions."),
  result: z.enum(RESULTS).optional(),
  actor: z.string().max(500).optional().describe("The exact name of the actor, such as the name of a token."),
  verb: z.string().optional(),
  since: offsetTime.describe("At or after this time."),
  until: offsetTime.describe("Done before then."),
  bulk: z
    .optional(z.enum(["false"]))
    .describe("`false` omits the rows for each item of bulk actions. The row of the bulk action itself (`verb=bulk`) remains."),
});
type Filter = z.infer<typeof AuditFilter>;

const COLUMNS = fragment(`id, actor, token_id, scope, verb, target, instance_id, reason, detail, before, after, result, at,
  iif(result = 'failed', NULL, applied_at) AS applied_at, error`);

/** The tenant's actions, newest first. With several filters a page may be short and still have a next page. */
export async function listActions(env: EngineEnv, by: Operator, filter: Filter & PageRequest): Promise<Page<AuditRow>> {
  const [since, until] = [Date.parse(filter.since ?? "1970-01-01"), filter.until ? Date.parse(filter.until) : Number.MAX_SAFE_INTEGER];
  const { items, next } = await rowPage(AuditRow, filter, positionBy("at", "id"), async (before, limit) => {
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
    if (rows.length >= limit || !isLookedFor(filter)) return rows;
    const [end] = await query<Position>(env.DB, sql`SELECT at, id FROM millrace_actions ${behind} LIMIT 1 OFFSET ${LOOKED_AT - 1}`);
    return { found: rows, end };
  });
  const about = await aboutThese(env, by, items);
  return { items: items.map((row) => ({ ...row, about: about(row) })), next };
}

/** True if the selected index covers only one of the given filters. */
function isLookedFor({ instance, target, bulk, actor, verb, result }: Filter): boolean {
  const byIndex = instance !== undefined || target !== undefined || bulk !== undefined;
  const others = [actor, verb, result, ...(instance === undefined ? [] : [target])];
  return others.filter((one) => one !== undefined).length > (byIndex ? 0 : 1);
}

/** Selects the index with the fewest rows. Most actions are on items of bulk actions. */
function whereActionsAre({ instance, target, bulk, actor, verb, result }: Filter): Statement {
  if (instance !== undefined) return sql`INDEXED BY millrace_actions_by_instance WHERE instance_id = ${instance} ${andAlone(bulk)}`;
  if (target !== undefined) return sql`INDEXED BY millrace_actions_by_target WHERE target = ${target} ${andAlone(bulk)}`;
  if (bulk !== undefined) return sql`INDEXED BY millrace_actions_by_themselves WHERE detail->>'bulk' IS NULL`;
  if (verb !== undefined) return sql`INDEXED BY millrace_actions_by_verb WHERE verb = ${verb}`;
  if (actor !== undefined) return sql`INDEXED BY millrace_actions_by_actor WHERE actor = ${actor}`;
  if (result !== undefined) return sql`INDEXED BY millrace_actions_by_result WHERE result = ${result}`;
  return sql`INDEXED BY millrace_actions_by_time WHERE true`;
}

/** Omits the actions on items of bulk actions. */
function andAlone(bulk: Filter["bulk"]): Statement {
  return bulk === undefined ? sql`` : sql`AND detail->>'bulk' IS NULL`;
}

type ActionEvent = Pick<AuditRow, "id" | "actor" | "verb" | "target" | "instance_id" | "reason" | "result" | "at">;

export function actionsNamed(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<ActionEvent[]> {
  return selectRows(
    env.DB,
    AuditRow,
    sql`
      SELECT id, actor, verb, target, instance_id, reason, result, at FROM millrace_actions
      WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  );
}

/** True if the audit has an operator's retry at or after `at`, in milliseconds by the database's clock. */
export async function retriedSince(env: EngineEnv, tenantId: string, instanceId: string, at: number): Promise<boolean> {
  const found = await query(
    env.DB,
    sql`
      SELECT 1 FROM millrace_actions
      WHERE tenant_id = ${tenantId} AND at >= ${at} AND instance_id = ${instanceId} AND verb = 'retry' AND result = 'applied' LIMIT 1`,
  );
  return found.length > 0;
}

type Target = Pick<AuditRow, "target"> & Partial<Pick<AuditRow, "instance_id">>;

/** The field `about` of targets. */
export async function aboutThese(env: EngineEnv, by: Operator, targets: readonly Target[]): Promise<(target: Target) => string | null> {
  const steps = new Map(targets.map(({ target }) => [target, parseEntryKey(target)]));
  const ids = [...new Set(targets.flatMap((one) => [one.target, one.instance_id ?? [], steps.get(one.target)?.instanceId ?? []].flat()))];
  if (ids.length === 0) return () => null;
  const rows = await query<{ id: string; name: string | null }>(
    env.DB,
    sql`
      SELECT id, workflow || iif(subject = '', '', ' · ' || subject) AS name FROM millrace_instances
      WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}
      UNION ALL
      SELECT id, coalesce(message_type || ' · ' || idempotency_key, message_type, idempotency_key) FROM millrace_dead_letters
      WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  );
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  return ({ target, instance_id: instanceId }) => {
    const entry = steps.get(target);
    const name = names.get(target) ?? names.get(entry?.instanceId ?? instanceId ?? "");
    return name ? [entry?.step, name].filter(Boolean).join(" · ") : null;
  };
}
