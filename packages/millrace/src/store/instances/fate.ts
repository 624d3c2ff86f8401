import { among, type Fragment, fragment, type Statement, sql } from "../../contract/sql.ts";
import { query } from "../d1/retry.ts";
import { type InstanceStatus, OVER, STOPPED, type StatusSet, UNSEEN } from "./status.ts";

/** Which instance a row names, and what is asked of it. */
interface Named {
  /** An expression of its id; default the row's column `instance_id`. */
  readonly id?: string;
  /** Statuses of which it has one; default any. */
  readonly statuses?: StatusSet;
}

/** The condition that the instance which a row names is kept, and of one tenant with it. `row` is a table, or its alias. */
export function hasInstance(row: string, { id = `${row}.instance_id`, statuses }: Named = {}): Fragment {
  const its = statuses === undefined ? "" : ` AND i.status IN ${statuses.fragment}`;
  return fragment(`EXISTS (SELECT 1 FROM millrace_instances i WHERE i.id = ${id} AND i.tenant_id = ${row}.tenant_id${its})`);
}

/** What a statement may read of the instance that its rows name, as far as it is kept: NULL where it is not. */
interface NamedInstance {
  /** Behind the table of those rows. */
  readonly join: Fragment;
  /** It does no more work unless a person moves it on. */
  readonly isStopped: Fragment;
  /** Why, as JSON with a `code` and a `message`. */
  readonly error: Fragment;
  /** The message that it was asked by, as JSON. */
  readonly envelope: Fragment;
}

/**
 * The instance that each row of a table names, as `i`: by an expression of its id, default the column `instance_id`. `row` is the table's
 * alias.
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
 * How the instance stands that a row names by this expression of its id, as JSON (a `Standing`): for the answer of a statement that writes
 * such rows. NULL where it is not kept.
 */
export function standingAt(id: string): Fragment {
  return fragment(`(SELECT json_object('run', i.run, 'status', i.status, 'undo', i.undo) FROM millrace_instances i WHERE i.id = ${id})`);
}

/** What has become of an instance. */
export interface Fate {
  subject: string;
  /** As it was sent; null where it travels by reference. */
  payload: unknown;
  /** It does no more work unless a person moves it on. */
  isStopped: boolean;
  /** Why; null unless it is stopped. */
  error: { code: string; message: string } | null;
  acceptedAt: number;
  updatedAt: number;
}

/** What has become of a tenant's instance; undefined where there is none. */
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

/** Whether a tenant's instance is at work, or will be. */
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

/** Of these instances, those that no message starts now: a person has cancelled or paused them, or they are under way already. */
export function selectNotToStart(ids: readonly string[]): Statement {
  return sql`SELECT id FROM millrace_instances WHERE id IN ${among(ids)} AND (undo IS NOT NULL OR status NOT IN ${UNSEEN})`;
}

/** The statuses of a tenant's instances, by their ids, as far as they are kept. */
export async function statusesOf(db: D1Database, tenantId: string, ids: readonly string[]): Promise<ReadonlyMap<string, InstanceStatus>> {
  const rows = await query<{ id: string; status: InstanceStatus }>(
    db,
    // By their ids: left to itself, the database would read all instances of the tenant.
    sql`
      SELECT i.id, i.status FROM json_each(${JSON.stringify(ids)}) k
      CROSS JOIN millrace_instances i ON i.id = k.value AND i.tenant_id = ${tenantId}`,
  );
  return new Map(rows.map(({ id, status }) => [id, status]));
}

/** Which instances are asked for that follow from events of others. */
interface Followed {
  /** The type of those events. */
  readonly type: string;
  /** The instances that emitted them. */
  readonly causes: readonly string[];
  /** The jobs they belong to, by their correlation ids. */
  readonly jobs: readonly string[];
  /** A field of the payload that is asked for as well. */
  readonly field: string;
}

/**
 * Instances that began by events which others emitted: what each followed from, and a field of its payload, or its subject where that has
 * none.
 */
export function followersOf(
  db: D1Database,
  tenantId: string,
  { type, causes, jobs, field }: Followed,
): Promise<{ id: string; cause: string; said: string }[]> {
  return query(
    db,
    // An event's cause is the instance that emitted it, and its step.
    sql`
      SELECT substr(causation_id, 1, 32) AS cause, id, coalesce(envelope->>${`$.payload_inline.${field}`}, subject) AS said
      FROM millrace_instances
      WHERE tenant_id = ${tenantId} AND correlation_id IN ${among(jobs)}
        AND message_type = ${type} AND substr(causation_id, 1, 32) IN ${among(causes)}`,
  );
}
