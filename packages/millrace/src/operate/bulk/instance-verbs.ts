import { among, sql } from "../../contract/sql.ts";
import { andActivity } from "../../inspect/activity.ts";
import type { Failure } from "../../replay/failure.ts";
import { bulkActionId } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { FAILED, type InstanceStatus, WORKING } from "../../store/instances/status.ts";
import type { ActedOn, Outcome } from "../../topology/bulk-verb.ts";
import type { AnyBulkVerb } from "../../topology/catalog.ts";
import { type BulkCall, defineBulkVerb } from "../../topology/define-bulk-verb.ts";
import type { InstanceAct } from "../instances/act.ts";
import { INSTANCE_ACTS } from "../instances/acts.ts";
import { instanceFilter, instanceMembers, unknownOfInstances } from "./filters.ts";

/** The bulk verbs of the acts on an instance. A bulk action has the same effect on each item as the HTTP route of the act. */
export const INSTANCE_VERBS: readonly AnyBulkVerb[] = Object.values<InstanceAct>(INSTANCE_ACTS).flatMap(ofMany);

function ofMany({ verb, bulk, plan, act }: InstanceAct): AnyBulkVerb[] {
  if (bulk === undefined) return [];
  const { from, usual, activity, needs, given, runs = false, consequence } = bulk;
  const asked = ({ env, catalog, by, reason, options }: BulkCall) => ({
    env,
    catalog,
    by,
    given: { ...(given?.(options) as object), reason },
  });
  return [
    defineBulkVerb({
      name: verb,
      noun: "instances",
      filter: instanceFilter(from, usual),
      members: (by, filter) => instanceMembers(by, filter, activity),
      unknown: unknownOfInstances,
      ...(needs && { needs }),
      async act(call, id) {
        await act(asked(call), id);
        return { changed: true };
      },
      refusal: async (call, id) => (await plan(asked(call), id)).refused,
      async isSpent({ env, by }, id) {
        const fitting = sql`
          SELECT 1 FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId} AND status IN ${among(from)}
            ${andActivity(activity)}`;
        return (await query(env.DB, fitting)).length === 0;
      },
      ...(runs && { outcomes: ends }),
      ...(consequence && { consequence }),
    }),
  ];
}

/**
 * The outcomes of the instances that run because of the act. For each item, this is the item itself or the new instance that the audit row
 * names.
 */
async function ends({ env, by, bulkId }: BulkCall, acted: readonly ActedOn[]): Promise<ReadonlyMap<string, Outcome>> {
  const rows = await query<Became & { id: string }>(
    env.DB,
    sql`
      SELECT a.target AS id, ${BECAME} FROM millrace_actions a
        CROSS JOIN millrace_instances i ON i.id = coalesce(a.detail->>'instance', a.target)
      WHERE a.id IN ${among(acted.map(({ id }) => bulkActionId(bulkId ?? "", id)))} AND +a.tenant_id = ${by.tenantId}
        AND +i.tenant_id = ${by.tenantId}`,
  );
  return outcomesOf(rows);
}

export interface Became {
  readonly status: InstanceStatus;
  readonly error: string | null;
}

export const BECAME = sql`i.status, i.error`;

/** The outcomes of items by id, without items that need no outcome. */
export function outcomesOf(rows: readonly (Became & { readonly id: string })[]): Map<string, Outcome> {
  const outcomes = new Map<string, Outcome>();
  for (const { id, ...became } of rows) {
    const outcome = outcomeOf(became);
    if (outcome) outcomes.set(id, outcome);
  }
  return outcomes;
}

function outcomeOf({ status, error }: Became): Outcome | undefined {
  if (WORKING.has(status)) return "open";
  if (status === "in_doubt") return { code: "in_doubt", why: IN_DOUBT };
  if (!FAILED.has(status)) return undefined;
  const { code = status, message = `The instance is ${status}.` } = JSON.parse(error ?? "{}") as Partial<Failure>;
  return { code, why: message };
}

const IN_DOUBT =
  "The instance is in doubt: the outcome of one of its effects is unknown, and an operator must resolve it (GET /v1/effects?state=in_doubt lists it). The instance is blocked until then, and continues automatically afterwards.";
