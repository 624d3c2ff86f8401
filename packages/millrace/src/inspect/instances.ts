import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Operator } from "../store/actions.ts";
import { positionBy } from "../store/d1/named.ts";
import { keysetPage, type Looked, type Page, type Position } from "../store/d1/paging.ts";
import { atomically, query, type Row } from "../store/d1/retry.ts";
import { GOING_ON, INSTANCE_STATUSES, type InstanceStatus, IS_INDEXED_AS_STOPPED, IS_OVERDUE } from "../store/instances/status.ts";
import { andActivity } from "./activity.ts";
import type { CountFilter, InstanceFilter, StatusCount } from "./instance-filter.ts";
import { INSTANCE_COLUMNS, type Instance, instanceIn, progressIn, type StepProgress } from "./instance-row.ts";

/** Maximum number of rows that one page scans for a workflow or a subject. An index would cost a written row per instance. */
const LOOKED_AT = 50_000;
/** For a frequent workflow or subject, the first rows fill the page. */
const LOOKED_AT_FIRST = 2_000;

/**
 * Newest first; overdue instances by deadline, delayed commands by due time. With a filter by workflow or subject, a page may be short or
 * empty although a next page exists.
 */
export async function listInstances(env: EngineEnv, by: Operator, filter: InstanceFilter): Promise<Page<Instance>> {
  const load = filter.overdue ? overdue : filter.activity === "delayed" && filter.cause === undefined ? delayed : newest;
  const { items, next } = await keysetPage(filter, positionBy("place", "id"), (before, limit) => load(env, by, filter, before, limit));
  return { items: items.map(instanceIn), next };
}

type Load = (env: EngineEnv, by: Operator, filter: InstanceFilter, before: Position, limit: number) => Promise<Row[] | Looked<Row>>;

const newest: Load = async (env, by, filter, before, limit) => {
  const upTo = async (end: Position | undefined) => ({ found: await query(env.DB, between(by, filter, before, end, limit)), end });
  if (!isLookedFor(filter)) return upTo(undefined);
  const near = await upTo(await endOfLook(env, by, filter, before, LOOKED_AT_FIRST));
  if (near.end === undefined || near.found.length >= limit) return near;
  return upTo(await endOfLook(env, by, filter, before, LOOKED_AT));
};

function between({ tenantId }: Operator, filter: InstanceFilter, before: Position, end: Position | undefined, limit: number): Statement {
  const { tag, since = 0 } = filter;
  if (tag !== undefined && isFromAll(filter))
    return sql`
      SELECT ${INSTANCE_COLUMNS}, accepted_at AS place FROM (
        SELECT accepted_at AS tagged_at, instance_id AS tagged FROM millrace_tags
        WHERE tenant_id = ${tenantId} AND tag = ${tag} AND (accepted_at, instance_id) < (${before.at}, ${before.id})
          AND accepted_at >= ${end?.at ?? since} AND (accepted_at, instance_id) >= (${end?.at ?? 0}, ${end?.id ?? ""}))
        CROSS JOIN millrace_instances ON id = tagged
      WHERE tenant_id = ${tenantId} ${andMeant({ ...filter, tag: undefined })}
      ORDER BY tagged_at DESC, tagged DESC LIMIT ${limit}`;
  return sql`
    SELECT ${INSTANCE_COLUMNS}, accepted_at AS place FROM millrace_instances ${whereInstancesAre(filter)} AND tenant_id = ${tenantId}
      ${andMeant(filter)} AND accepted_at >= ${end?.at ?? since} AND (accepted_at, id) < (${before.at}, ${before.id})
      AND (accepted_at, id) >= (${end?.at ?? 0}, ${end?.id ?? ""})
    ORDER BY accepted_at DESC, id DESC LIMIT ${limit}`;
}

const overdue: Load = ({ DB }, { tenantId }, filter, before, limit) =>
  query(
    DB,
    sql`
    SELECT ${INSTANCE_COLUMNS}, must_end_by AS place FROM millrace_instances INDEXED BY millrace_instances_by_deadline
    WHERE tenant_id = ${tenantId} AND ${IS_OVERDUE} AND (must_end_by, id) < (${before.at}, ${before.id})
      ${andMeant(filter)} AND accepted_at >= ${filter.since ?? 0}
    ORDER BY must_end_by DESC, id DESC LIMIT ${limit}`,
  );

/** The position contains the negative due time, because the earliest is first. */
const delayed: Load = ({ DB }, { tenantId }, filter, { at, id }, limit) =>
  query(
    DB,
    sql`
    SELECT ${INSTANCE_COLUMNS}, -due_at AS place FROM millrace_instances INDEXED BY millrace_instances_delayed
    WHERE tenant_id = ${tenantId} AND status = 'accepted' AND due_at IS NOT NULL AND (due_at, id) > (${-at}, ${id})
      ${andMeant(filter)} AND accepted_at >= ${filter.since ?? 0}
    ORDER BY due_at, id LIMIT ${limit}`,
  );

function andMeant({ status, workflow, version, subject, correlation, tag, parent, activity }: InstanceFilter): Statement {
  return sql`${andEquals(fragment("parent"), parent)} ${andEquals(fragment("status"), status)} ${andEquals(fragment("workflow"), workflow)}
    ${andEquals(fragment("version"), version)} ${andEquals(fragment("subject"), subject)} ${andEquals(fragment("correlation_id"), correlation)}
    ${andTagged(tag)} ${andActivity(activity)}`;
}

/** For rows that an index other than the index of tags has selected. */
function andTagged(tag: string | undefined): Statement {
  if (tag === undefined) return sql``;
  return sql`AND EXISTS (SELECT 1 FROM millrace_tags t WHERE t.tenant_id = millrace_instances.tenant_id AND t.tag = ${tag}
    AND t.accepted_at = millrace_instances.accepted_at AND t.instance_id = millrace_instances.id)`;
}

/** True if rows are scanned by time. The status `complete` needs no index, because usually most instances are complete. */
function isLookedFor(filter: InstanceFilter): boolean {
  return isFromAll(filter) && [filter.workflow, filter.version, filter.subject].some((one) => one !== undefined);
}

/** True if a filter selects among all instances of the tenant or of a tag. */
function isFromAll({ correlation, cause, parent, activity, status }: InstanceFilter): boolean {
  return [correlation, cause, parent, activity].every((one) => one === undefined) && (status === undefined || status === "complete");
}

async function endOfLook(
  { DB }: EngineEnv,
  by: Operator,
  { since = 0, tag }: InstanceFilter,
  before: Position,
  looked: number,
): Promise<Position | undefined> {
  const [end] = await query<Position>(
    DB,
    tag === undefined
      ? sql`
      SELECT accepted_at AS at, id FROM millrace_instances INDEXED BY millrace_instances_by_time
      WHERE tenant_id = ${by.tenantId} AND accepted_at >= ${since} AND (accepted_at, id) < (${before.at}, ${before.id})
      ORDER BY accepted_at DESC, id DESC LIMIT 1 OFFSET ${looked - 1}`
      : sql`
      SELECT accepted_at AS at, instance_id AS id FROM millrace_tags
      WHERE tenant_id = ${by.tenantId} AND tag = ${tag} AND accepted_at >= ${since}
        AND (accepted_at, instance_id) < (${before.at}, ${before.id})
      ORDER BY accepted_at DESC, instance_id DESC LIMIT 1 OFFSET ${looked - 1}`,
  );
  return end;
}

/**
 * Selects the index with the fewest rows. All tenants' open instances share an index. SQLite matches the conditions of a partial index only
 * with literals. The last condition repeats the text of the index, which includes a status that no row has.
 */
function whereInstancesAre({ correlation, cause, parent, status, activity }: InstanceFilter): Statement {
  if (parent !== undefined) {
    return sql`INDEXED BY millrace_instances_by_parent WHERE parent IS NOT NULL AND parent = ${parent}
      ${andEquals(fragment("correlation_id"), correlation)} ${andEquals(fragment("cause"), cause)}`;
  }
  if (cause !== undefined && correlation !== undefined)
    return sql`INDEXED BY millrace_instances_by_cause WHERE status = 'errored' AND cause = ${cause} AND correlation_id = ${correlation}`;
  if (cause !== undefined) return sql`INDEXED BY millrace_instances_by_cause WHERE status = 'errored' AND cause = ${cause}`;
  if (correlation !== undefined) return sql`INDEXED BY millrace_instances_by_correlation WHERE correlation_id = ${correlation}`;
  const isOfTime = status === undefined || status === "complete";
  if (isOfTime && activity === undefined) return sql`INDEXED BY millrace_instances_by_time WHERE true`;
  if (isOfTime || GOING_ON.has(status)) return sql`INDEXED BY millrace_instances_to_check WHERE check_at IS NOT NULL`;
  return sql`INDEXED BY millrace_instances_stopped WHERE ${IS_INDEXED_AS_STOPPED} AND status = ${status}`;
}

/** Reads a tag from the index of tags, at most `most` rows, newest first, unless a job or a cause selects fewer. */
export function whereInstancesOf({ tenantId }: Operator, filter: InstanceFilter & { until?: number }, most = -1): Statement {
  const { tag, correlation, cause, since = 0, until = Number.MAX_SAFE_INTEGER } = filter;
  if (tag === undefined || correlation !== undefined || cause !== undefined)
    return sql`${whereInstancesAre(filter)} ${andTagged(tag)} AND tenant_id = ${tenantId}`;
  return sql`WHERE id IN (SELECT instance_id FROM millrace_tags WHERE tenant_id = ${tenantId} AND tag = ${tag} AND accepted_at >= ${since}
    AND accepted_at < ${until} ORDER BY accepted_at DESC, instance_id DESC LIMIT ${most}) AND +tenant_id = ${tenantId}`;
}

const MOST_COUNTED = 1_000;
/** The newest rows of an index, which a count reads. */
const COUNTED_FROM = 2_000;

/** Reads each index once. */
export async function countInstances({ DB }: EngineEnv, by: Operator, filter: CountFilter): Promise<StatusCount[]> {
  const { correlation, tag, since = 0 } = filter;
  const stopped = INSTANCE_STATUSES.filter((status) => status !== "complete" && !GOING_ON.has(status)).map((status) => [status]);
  const isOfOneIndex = correlation !== undefined || tag !== undefined;
  const groups = isOfOneIndex ? [INSTANCE_STATUSES] : [GOING_ON.values, ...stopped, ["complete" as const]];
  const counts = await atomically(
    DB,
    groups.map(
      ([status]) => sql`
      SELECT status, count(*) AS looked, sum(fits) AS count FROM (
        SELECT status, (true ${andEquals(fragment("workflow"), filter.workflow)} ${andEquals(fragment("subject"), filter.subject)}) AS fits
        FROM millrace_instances ${whereInstancesOf(by, { status, correlation, tag, since }, COUNTED_FROM)} AND accepted_at >= ${since}
        ORDER BY accepted_at DESC, id DESC LIMIT ${COUNTED_FROM})
      GROUP BY status`,
    ),
  );
  const found = groups.flatMap((statuses, at) => {
    const rows = counts[at] ?? [];
    const isShort = rows.reduce((sum, { looked }) => sum + Number(looked), 0) === COUNTED_FROM;
    return statuses.map((status) => {
      const count = Number(rows.find((row) => row.status === status)?.count ?? 0);
      return { status, count: Math.min(count, MOST_COUNTED), more: isShort || count > MOST_COUNTED };
    });
  });
  return found.toSorted((one, other) => INSTANCE_STATUSES.indexOf(one.status) - INSTANCE_STATUSES.indexOf(other.status));
}

/** Errors: `instance_not_found`, also for an instance of another tenant. */
export async function getInstance(env: EngineEnv, by: Operator, id: string): Promise<Instance> {
  const rows = await query(env.DB, sql`SELECT ${INSTANCE_COLUMNS} FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`);
  const row = rows[0];
  if (!row) throw unknownInstance(id);
  return instanceIn(row);
}

export async function instancesNamed(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<Instance[]> {
  const rows = await query(
    env.DB,
    sql`SELECT ${INSTANCE_COLUMNS} FROM millrace_instances WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  );
  return rows.map(instanceIn);
}

/** All reports of the current run, the newest last. */
export async function progressOf({ DB }: EngineEnv, id: string): Promise<StepProgress[]> {
  const [row] = await query(DB, sql`SELECT progress FROM millrace_instances WHERE id = ${id}`);
  return progressIn(row?.progress);
}

export function unknownInstance(id: string): MillraceError {
  return new MillraceError("instance_not_found", `There is no instance ${beginning(id, 64)}. List them with GET /v1/instances.`);
}

/** Undefined if the tenant has no such instance, or its row no longer has a payload. Errors: `payload_missing`, `invalid_payload`. */
export async function payloadOf<Payload>(
  env: EngineEnv,
  { tenantId }: Pick<Operator, "tenantId">,
  definition: MessageDefinition<Payload>,
  id: string,
): Promise<Payload | undefined> {
  const [row] = await query<{ envelope: string | null }>(
    env.DB,
    sql`SELECT envelope FROM millrace_instances WHERE id = ${id} AND tenant_id = ${tenantId} AND message_type = ${definition.type}`,
  );
  if (!row?.envelope) return undefined;
  return unpackPayload(env.PAYLOADS, definition, JSON.parse(row.envelope) as Envelope);
}

export const MAX_WAIT_S = 30;

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;

/**
 * Waits until an instance has ended or needs an operator. While an undo runs, a pending question does not end the wait. Returns after `ms`
 * at the latest, and at once for an unknown instance. A wait of 30 s takes 35 reads.
 */
export async function untilSettled(env: EngineEnv, by: Operator, id: string, ms: number, signal?: AbortSignal): Promise<void> {
  const until = Date.now() + ms;
  for (let pauseMs = FIRST_PAUSE_MS; !signal?.aborted; pauseMs = Math.min(pauseMs * 1.5, MAX_PAUSE_MS)) {
    const [row] = await query<{ status: InstanceStatus; asks: number }>(
      env.DB,
      sql`
        SELECT status,
          undo IS NULL AND EXISTS (SELECT 1 FROM millrace_approvals
            WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending') AS asks
        FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`,
    );
    const leftMs = until - Date.now();
    if (row === undefined || !GOING_ON.has(row.status) || row.asks === 1 || leftMs <= 0) return;
    await scheduler.wait(Math.min(pauseMs, leftMs));
  }
}
