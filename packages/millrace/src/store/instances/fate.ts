import { among, type Fragment, fragment, type Statement, sql } from "../../contract/sql.ts";
import { query } from "../d1/retry.ts";
import { pauseOf } from "../pauses.ts";
import { type InstanceStatus, OVER, STOPPED, type StatusSet, UNSEEN } from "./status.ts";

/** How a row names its instance, with a condition on the instance. */
interface Named {
  /** An SQL expression of the instance's id; default: the row's column `instance_id`. */
  readonly id?: string;
  /** The required statuses of the instance; default: any. */
  readonly statuses?: StatusSet;
}

/** The condition that a row's instance exists and has the row's tenant. `row` is the table's name or alias. */
export function hasInstance(row: string, { id = `${row}.instance_id`, statuses }: Named = {}): Fragment {
  const its = statuses === undefined ? "" : ` AND i.status IN ${statuses.fragment}`;
  return fragment(`EXISTS (SELECT 1 FROM millrace_instances i WHERE i.id = ${id} AND i.tenant_id = ${row}.tenant_id${its})`);
}

/** The columns of a row's instance for a statement. Every column is NULL if the instance does not exist. */
interface NamedInstance {
  /** The join to add after the table of the rows in the FROM clause. */
  readonly join: Fragment;
  /** True when the instance has ended or failed and only an operator can continue it. */
  readonly isStopped: Fragment;
  /** The error, as JSON with a `code` and a `message`. */
  readonly error: Fragment;
  /** The message that started the instance, as JSON. */
  readonly envelope: Fragment;
}

/**
 * Joins each row of a table with its instance as `i`, by an SQL expression of the instance id (default: the column `instance_id`). `row` is
 * the table's alias.
 */
export function instanceOf(row: string, id = `${row}.instance_id`): NamedInstance {
  return {
    join: fragment(`LEFT JOIN millrace_instances i ON i.id = ${id} AND i.tenant_id = ${row}.tenant_id`),
    isStopped: IS_STOPPED,
    error: ERROR,
    envelope: fragment(`i.envelope`),
  };
}

const IS_STOPPED = fragment(`i.status IN ${STOPPED.fragment}`);

const ERROR = fragment(`coalesce(i.error, json_object('code', i.status, 'message', 'Its instance is ' || i.status || '.'))`);

/**
 * SQL expression of an instance's state as JSON (a `Standing`), for a RETURNING clause of rows that name the instance. The expression is
 * NULL if the instance does not exist.
 */
export function standingAt(id: string): Fragment {
  return fragment(`(SELECT json_object('run', i.run, 'status', i.status, 'undo', i.undo) FROM millrace_instances i WHERE i.id = ${id})`);
}

/** The state of an instance. */
export interface Fate {
  subject: string;
  /** The payload as the sender sent it; null for a payload in R2. */
  payload: unknown;
  /** True when the instance has ended or failed and only an operator can continue it. */
  isStopped: boolean;
  /** The error of the instance; null unless the instance has stopped. */
  error: { code: string; message: string } | null;
  acceptedAt: number;
  updatedAt: number;
}

/** The state of a tenant's instance; undefined if the instance does not exist. */
export async function fateOf(db: D1Database, tenantId: string, id: string): Promise<Fate | undefined> {
  const [row] = await query<
    Omit<Fate, "payload" | "isStopped" | "error"> & { payload: string | null; stopped: number; error: string | null }
  >(
    db,
    sql`
      SELECT i.subject, i.envelope->'payload_inline' AS payload, ${IS_STOPPED} AS stopped, iif(${IS_STOPPED}, ${ERROR}, NULL) AS error,
        i.accepted_at AS acceptedAt, i.updated_at AS updatedAt
      FROM millrace_instances i WHERE i.id = ${id} AND i.tenant_id = ${tenantId}`,
  );
  if (!row) return undefined;
  const { payload, stopped, error, ...rest } = row;
  return { ...rest, payload: payload && JSON.parse(payload), isStopped: stopped === 1, error: error === null ? null : JSON.parse(error) };
}

/** True if a tenant's instance is in progress. */
export async function isUnderWay(db: D1Database, tenantId: string, id: string): Promise<boolean> {
  return (
    (
      await query(
        db,
        sql`SELECT 1 FROM millrace_instances
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status NOT IN ${OVER}`,
      )
    ).length > 0
  );
}

/**
 * Selects the given instances that a message must not start. A selected instance is cancelled, already started, or paused, or the
 * instance's workflow or queue is paused.
 */
export function selectNotToStart(ids: readonly string[]): Statement {
  return sql`SELECT id FROM millrace_instances 
    WHERE id IN ${among(ids)} AND (undo IS NOT NULL OR status NOT IN ${UNSEEN} OR held_by IS NOT NULL OR ${pauseOf("1")} IS NOT NULL)`;
}

/** The statuses of a tenant's existing instances, by id. */
export async function statusesOf(db: D1Database, tenantId: string, ids: readonly string[]): Promise<ReadonlyMap<string, InstanceStatus>> {
  return new Map([...(await runsOf(db, tenantId, ids))].map(([id, { status }]) => [id, status]));
}

interface Run {
  readonly id: string;
  readonly status: InstanceStatus;
  readonly run: number;
}

/** The statuses and the run numbers of a tenant's existing instances, by id. */
export async function runsOf(db: D1Database, tenantId: string, ids: readonly string[]): Promise<ReadonlyMap<string, Run>> {
  const rows = await query<Run>(
    db,
    // The rows are selected by id, because the database would otherwise read all instances of the tenant.
    sql`
      SELECT i.id, i.status, i.run FROM json_each(${JSON.stringify(ids)}) k
      CROSS JOIN millrace_instances i ON i.id = k.value AND i.tenant_id = ${tenantId}`,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** The query for instances that events of other instances have started. */
interface Followed {
  /** The type of the events. */
  readonly type: string;
  /** The instances that emitted the events. */
  readonly causes: readonly string[];
  /** The correlation ids of the instances. */
  readonly jobs: readonly string[];
  /** The field of the payload that the query returns. */
  readonly field: string;
}

/**
 * Selects instances that events of other instances have started. Each row has the causing instance and a field of the started instance's
 * payload. If the payload does not have the field, the row has the subject of the started instance.
 */
export function followersOf(
  db: D1Database,
  tenantId: string,
  { type, causes, jobs, field }: Followed,
): Promise<{ id: string; cause: string; said: string }[]> {
  return query(
    db,
    // An event's causation id consists of the emitting instance's id and the emitting step.
    sql`
      SELECT substr(causation_id, 1, 32) AS cause, id, coalesce(envelope->>${`$.payload_inline.${field}`}, subject) AS said
      FROM millrace_instances
      WHERE tenant_id = ${tenantId} AND correlation_id IN ${among(jobs)}
        AND message_type = ${type} AND substr(causation_id, 1, 32) IN ${among(causes)}`,
  );
}
