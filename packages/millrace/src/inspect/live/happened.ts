import type { EngineEnv } from "../../contract/bindings.ts";
import { formatEntryKey } from "../../contract/ids.ts";
import { iso } from "../../contract/row.ts";
import { now, type Statement, sql } from "../../contract/sql.ts";
import type { Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";

export const LIVE_KINDS = ["instance", "dead_letter", "doubt", "approval", "action"] as const;

export type LiveKind = (typeof LIVE_KINDS)[number];

export interface Happened {
  /** By the database's clock, in milliseconds. */
  readonly at: number;
  readonly kind: LiveKind;
  readonly id: string;
  /** The data of an event `doubt`. */
  readonly doubt?: Readonly<Record<string, string>>;
}

/** All events before this position were returned. */
export interface Place extends Pick<Happened, "at"> {
  /** The last returned event of the millisecond `at`; undefined if no event of that millisecond was returned. */
  readonly last?: Pick<Happened, "kind" | "id">;
}

/** Maximum number of rows per kind, and of newest instances and questions that are checked for a change. */
const LOOKED_AT = 1000;

/**
 * The events of a tenant after a position, in one statement. It finds changes of only the newest 1,000 instances and questions, because an
 * index by time of change would cost a written row per change. An older instance is found when it fails, is in doubt or gets an action.
 * `more`: a query reached its limit. All events before `upTo` are known, because no later write gets an earlier time.
 */
export async function happenedSince(env: EngineEnv, { tenantId }: Operator, place: Place, kinds: readonly LiveKind[]) {
  const asked = kinds.flatMap((kind) => SOURCES[kind](tenantId, place.at).map((source) => ({ kind, source })));
  const columns = asked.reduce((all, { source }) => sql`${all}, (SELECT json_group_array(json(told)) FROM (${source}))`, sql`${now}`);
  const [row = {}] = await query(env.DB, sql`SELECT json_array(${columns}) AS seen`);
  const [upTo = 0, ...found] = JSON.parse(String(row.seen ?? "[0]")) as [number, ...Told[][]];
  const all = found.flatMap((rows, index) => rows.map((one) => asHappened(asked[index]?.kind ?? "instance", one)));
  const behind = all.filter((one) => one.at < upTo && isBehind(one, place));
  const once = [...new Map(behind.map((one) => [`${one.kind} ${one.id}`, one])).values()];
  return { happened: once.toSorted(inOrder), more: found.some((rows) => rows.length >= LOOKED_AT), upTo };
}

type Told = [at: number, id: string, ...more: (string | number)[]];

function asHappened(kind: LiveKind, [at, id, ...more]: Told): Happened {
  if (kind !== "doubt") return { at, kind, id };
  const [step, item, generation, effectClass, workflow] = more.map(String) as [string, string, string, string, string];
  const key = formatEntryKey({ instanceId: id, step, item, generation: Number(generation) });
  return { at, kind, id: key, doubt: { key, instance_id: id, workflow, step, item, class: effectClass, since: iso(at) } };
}

function isBehind(one: Happened, { at, last }: Place): boolean {
  return last === undefined || one.at !== at ? one.at >= at : inOrder(one, { at, ...last }) > 0;
}

function inOrder(one: Happened, other: Happened): number {
  const [mine, others] = [LIVE_KINDS.indexOf(one.kind), LIVE_KINDS.indexOf(other.kind)];
  return one.at - other.at || mine - others || (one.id < other.id ? -1 : one.id > other.id ? 1 : 0);
}

type Source = (tenantId: string, since: number) => Statement[];

/** The statements of each kind. A row of another tenant is an event of the time 0. */
const SOURCES: Readonly<Record<LiveKind, Source>> = {
  instance: (tenantId, since) => [
    sql`
    SELECT json_array(updated_at, id) AS told FROM (
      SELECT updated_at, id FROM millrace_instances INDEXED BY millrace_instances_by_time
      WHERE tenant_id = ${tenantId} ORDER BY accepted_at DESC, id DESC LIMIT ${LOOKED_AT})
    WHERE updated_at >= ${since}`,
    // The index of failures does not contain the tenant, so the statement reads the failures of all tenants.
    sql`
    SELECT iif(tenant_id = ${tenantId}, json_array(updated_at, id), '[0,""]') AS told
      FROM millrace_instances INDEXED BY millrace_instances_errored
    WHERE status = 'errored' AND updated_at >= ${since} ORDER BY updated_at DESC LIMIT ${LOOKED_AT}`,
  ],
  dead_letter: (tenantId, since) =>
    ["open", "replayed", "skipped"].map(
      (state) => sql`
      SELECT json_array(captured_at, id) AS told FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_tenant
      WHERE tenant_id = ${tenantId} AND state = ${state} AND captured_at >= ${since} ORDER BY captured_at DESC, id DESC LIMIT ${LOOKED_AT}`,
    ),
  // The index of unknown outcomes does not contain the tenant, so the statement reads the unknown outcomes of all tenants.
  doubt: (tenantId, since) => [
    sql`
    SELECT iif(i.tenant_id = ${tenantId}, json_array(entries.updated_at, i.id, step, item, generation, class, i.workflow), '[0,""]') AS told
    FROM (
      SELECT updated_at, instance_id, step, item, generation, class FROM millrace_inbox INDEXED BY millrace_inbox_in_doubt
      WHERE state = 'in_doubt' AND updated_at >= ${since} ORDER BY updated_at DESC LIMIT ${LOOKED_AT}) entries
    CROSS JOIN millrace_instances i ON i.id = entries.instance_id`,
  ],
  approval: (tenantId, since) => [
    sql`
    SELECT json_array(coalesce(decided_at, asked_at), id) AS told FROM (
      SELECT asked_at, decided_at, id FROM millrace_approvals INDEXED BY millrace_approvals_by_time
      WHERE tenant_id = ${tenantId} ORDER BY asked_at DESC, id DESC LIMIT ${LOOKED_AT})
    WHERE coalesce(decided_at, asked_at) >= ${since}`,
  ],
  action: (tenantId, since) => [
    sql`
    SELECT json_array(at, id) AS told FROM millrace_actions INDEXED BY millrace_actions_by_time
    WHERE tenant_id = ${tenantId} AND at >= ${since} ORDER BY at DESC, id DESC LIMIT ${LOOKED_AT}`,
  ],
};
