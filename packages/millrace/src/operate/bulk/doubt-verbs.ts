import { formatEntryKey, parseEntryKey } from "../../contract/ids.ts";
import { type Fragment, fragment, type Statement, sql } from "../../contract/sql.ts";
import { answersTo } from "../../inspect/answers.ts";
import { bulkActionId } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { nobodyRuns } from "../../store/inbox/doubts.ts";
import { FAILED, type InstanceStatus } from "../../store/instances/status.ts";
import type { ActedOn, BulkPart, Outcome } from "../../topology/bulk-verb.ts";
import { type BulkCall, defineBulkVerb } from "../../topology/define-bulk-verb.ts";
import { planResolve, resolveDoubt } from "../instances/resolve.ts";
import { doubtFilter, doubtMembers, unknownOfInstances } from "./filters.ts";
import { BECAME, type Became, outcomeOf } from "./instance-verbs.ts";

/** Resolutions that can apply to many effects at once. `confirm` is excluded, because each effect needs a different output. */
type Said = "reject" | "retry_anyway";

function ofDoubts(name: Said, follows: string) {
  return defineBulkVerb({
    name,
    noun: "doubts",
    follows,
    filter: doubtFilter,
    members: doubtMembers,
    listing: { write: listed, read: keyOf },
    unknown: unknownOfInstances,
    parts: (call, members) => byStep(name, call, members),
    async act({ env, by, reason }, key) {
      await resolveDoubt(env, by, key, { verb: name }, reason);
      return { changed: true };
    },
    refusal: async ({ env, by }, key) => (await planResolve(env, by, key, name)).refused,
    isSpent: async ({ env, by }, key) => (await planResolve(env, by, key, name)).isAnswered,
    outcomes: ends,
  });
}

/**
 * The key of an effect in the form that the item list stores: decoded, because SQLite cannot decode base64. A string that is no key remains
 * unchanged.
 */
function listed(key: string): string {
  const entry = parseEntryKey(key);
  return JSON.stringify(entry ? [entry.instanceId, entry.step, entry.item, entry.generation] : [key]);
}

function keyOf(inList: string): string {
  const [instanceId, step, item, generation] = JSON.parse(inList) as [string, string?, string?, number?];
  return step === undefined || item === undefined || generation === undefined
    ? instanceId
    : formatEntryKey({ instanceId, step, item, generation });
}

const isListed = (id: Fragment) => sql`
  e.instance_id = ${id}->>0 AND e.step = ${id}->>1 AND e.item = ${id}->>2 AND e.generation = ${id}->>3`;

interface OfStep {
  workflow: string | null;
  step: string;
  status: InstanceStatus;
  undone_by: string | null;
  takes_back: number;
  undoable: number;
  runs_no_more: number;
  happened: number | null;
  count: number;
}

/** Groups unknown outcomes by step and by the consequence of the resolution, which depends on the status of the instance. */
async function byStep(name: Said, { env, by }: BulkCall, members: Statement): Promise<BulkPart[]> {
  const rows = await query<OfStep & Record<string, unknown>>(
    env.DB,
    sql`
      SELECT i.workflow, e.step, i.status, i.undo AS undone_by, e.position < 0 AS takes_back, e.undoable,
        ${nobodyRuns("e.position")} AS runs_no_more, e.error->>'answered' IS NOT NULL AS happened, count(*) AS count
      FROM (${members}) t LEFT JOIN millrace_inbox e ON ${isListed(fragment("t.id"))} AND e.state = 'in_doubt'
        LEFT JOIN millrace_instances i ON i.id = e.instance_id AND +i.tenant_id = ${by.tenantId}
      GROUP BY i.workflow, e.step, i.status, i.undo IS NULL, takes_back, e.undoable, runs_no_more, happened`,
  );
  const parts = rows.map((row) => ({ ...saidOf(name, row), count: row.count }));
  return [...Map.groupBy(parts, ({ what, follows }) => JSON.stringify([what, follows])).values()]
    .flatMap((same) => same.slice(0, 1).map((one) => ({ ...one, count: same.reduce((sum, { count }) => sum + count, 0) })))
    .toSorted((a, b) => b.count - a.count);
}

function saidOf(name: Said, { workflow, step, status, undone_by: undo, ...row }: OfStep): Omit<BulkPart, "count"> {
  if (workflow === null)
    return { what: "no effect in doubt", follows: "No change: the outcome is resolved already, or the effect does not exist." };
  const { reject, retry } = answersTo({
    status,
    undo,
    takesBack: row.takes_back === 1,
    undoable: row.undoable === 1,
    runsNoMore: row.runs_no_more === 1,
    hasHappened: row.happened === 1,
  });
  return { what: `${workflow} · ${step}`, follows: name === "reject" ? (reject ?? HAPPENED) : (retry ?? RUNS_NO_MORE) };
}

const HAPPENED =
  "Refused: the effect happened, but the rows that it records were refused. Confirm each such effect on its own, with its output.";
const RUNS_NO_MORE = "Refused: no run would execute the effect again. Reject it, to record the outcome.";

/**
 * The outcomes of the instances whose effects were resolved. An instance that had failed before the resolution does not run. An instance
 * that waits for another unknown outcome counts as a success.
 */
async function ends({ env, by, bulkId }: BulkCall, acted: readonly ActedOn[]): Promise<ReadonlyMap<string, Outcome>> {
  const entries = acted.map(({ id }) => ({ ...parseEntryKey(id), id, action: bulkActionId(bulkId ?? "", id) }));
  const rows = await query<Became & { id: string; again: number; moved: number }>(
    env.DB,
    sql`
      SELECT value->>'id' AS id, ${BECAME}, i.updated_at >= a.at AS moved, EXISTS (SELECT 1 FROM millrace_inbox e
        WHERE e.instance_id = i.id AND e.step = value->>'step' AND e.item = value->>'item' AND e.state = 'in_doubt') AS again
      FROM json_each(${JSON.stringify(entries)}) CROSS JOIN millrace_actions a ON a.id = value->>'action'
        CROSS JOIN millrace_instances i ON i.id = a.instance_id
      WHERE a.tenant_id = ${by.tenantId} AND i.tenant_id = ${by.tenantId}`,
  );
  return new Map(
    rows.flatMap(({ id, again, moved, ...became }): [string, Outcome][] => {
      const isOther = (became.status === "in_doubt" && again === 0) || (FAILED.has(became.status) && moved === 0);
      const outcome = isOther ? undefined : outcomeOf(became);
      return outcome === undefined ? [] : [[id, outcome]];
    }),
  );
}

export const DOUBT_VERBS = [
  ofDoubts(
    "reject",
    "You state that none of these effects happened. An effect that did happen then happens twice, and this cannot be undone: check the receiving side first.",
  ),
  ofDoubts(
    "retry_anyway",
    "You state that the outcomes cannot be determined. Each effect that did happen then happens twice, and this cannot be undone. The audit log records that you accepted this.",
  ),
];
