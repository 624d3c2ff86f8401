import { folderOf, membersOf, movedAt, objectName, rowsOf } from "../archive/object.ts";
import { type EngineEnv, objectsIn, workflowBinding } from "../contract/bindings.ts";
import { cellsOf } from "../contract/cells.ts";
import { messageOf } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import { placed } from "../contract/location.ts";
import { laneIn } from "../contract/queue.ts";
import { among, type Statement, sql } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { type LaneEnv, laneObjectOf } from "../lanes/client.ts";
import { type LockEnv, lockObject } from "../locks/client.ts";
import { removeQuestions } from "../store/approvals.ts";
import { auditOpened } from "../store/audit-opened.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { removeEntries } from "../store/inbox/read.ts";
import { deleteInstances, isOpenOf, terminateInstances } from "../store/instances/remove.ts";
import { REMEMBERED_DAYS } from "../store/kept-days.ts";
import { forgetLane } from "../store/lanes.ts";
import { selectLocks, unlistLock } from "../store/locks.ts";
import { removeUnsentOf } from "../store/outbox.ts";
import { selectObjects, type TenantObject, unregisterObject } from "../store/tenant-objects.ts";
import { removeWaits } from "../store/waits.ts";

/**
 * The engine's tables with a `tenant_id`, each with its key columns that are not the tenant. Instances are removed separately, with their
 * related rows.
 */
export const ENGINE_TENANT_TABLES: Readonly<Record<string, readonly string[]>> = {
  millrace_tokens: ["id"],
  millrace_sign_in_codes: ["hash"],
  millrace_schedules: ["name"],
  millrace_schedule_runs: ["name", "due_at", "state"],
  millrace_dead_letters: ["id"],
  millrace_failed_deliveries: ["letter"],
  millrace_causes: ["kind", "id"],
  millrace_signals: ["id"],
  millrace_tags: ["tag", "accepted_at", "instance_id"],
  millrace_actions: ["id"],
  millrace_limits: ["name"],
  millrace_locks: ["name"],
  millrace_fences: ["name"],
  millrace_lanes: ["lane", "key"],
  millrace_tenant_objects: ["binding", "name"],
  millrace_divergences: ["kind", "what"],
  millrace_pauses: ["id"],
  millrace_bulk_actions: ["id"],
  millrace_bulk_lists: ["bulk_id", "n"],
  millrace_bulk_items: ["bulk_id", "result", "n"],
  // In the databases of all cells.
  millrace_cells: ["tenant_id"],
  millrace_moved: ["tenant_id"],
};

/** Number of instances removed in one slice. The removal of each instance takes one or two calls of the platform. */
const INSTANCES = 50;
/** Maximum number of rows removed by one statement, or of objects removed by one call. */
const ROWS = 1000;
const DAY_MS = 86_400_000;

/**
 * Ends some of a tenant's instances in progress, so that none of the ended instances starts or retries later. Never ends the instance
 * `except`. Returns the number of ended instances.
 */
export async function stopInstances(env: EngineEnv, tenantId: string, except: string): Promise<number> {
  const found = await query<PlatformInstance & Record<string, unknown>>(
    env.DB,
    sql`SELECT id, workflow, undo FROM millrace_instances WHERE ${isOpenOf(tenantId, except)} LIMIT ${INSTANCES}`,
  );
  if (found.length === 0) return 0;
  const ids = found.map(({ id }) => id);
  await query(env.DB, terminateInstances(ids, tenantId, except));
  for (const instance of found) await deleteOnPlatform(env, instance);
  return found.length;
}

/**
 * Removes some of a tenant's instances with all related data in the database and on the platform, and with their lanes. Never removes the
 * instance `except`. Then removes the objects of archived instances. Returns the number of removed instances or objects.
 */
export async function removeInstances(env: EngineEnv & LaneEnv, tenantId: string, except: string): Promise<number> {
  const found = await query<PlatformInstance & { queue: string | null; subject: string; parent: string | null }>(
    env.DB,
    sql`SELECT id, workflow, undo, queue, subject, parent FROM millrace_instances
      WHERE tenant_id = ${tenantId} AND id <> ${except} LIMIT ${INSTANCES}`,
  );
  if (found.length === 0) return removeArchived(env, tenantId);
  const lanes = new Map(found.map(({ queue, subject: key }) => [JSON.stringify([queue, key]), { lane: laneIn(queue) ?? "", key }]));
  await eraseLanes(
    env,
    tenantId,
    [...lanes.values()].filter(({ lane }) => lane !== ""),
  );
  for (const instance of found) await deleteOnPlatform(env, instance);
  const ids = found.map(({ id }) => id);
  // A delayed write may accept a child after the removal of the child's parent, together with an entry and a wait of that parent.
  const parents = found.flatMap(({ parent }) => (parent === null || parent === except ? [] : parent));
  const whose = sql`instance_id IN ${among([...ids, ...parents])}`;
  await atomically(env.DB, [removeEntries(whose), removeWaits(whose), removeQuestions(whose), deleteInstances(ids, tenantId)]);
  return found.length;
}

/**
 * Removes some objects with archived instances of a tenant. The platform may still have the runs of instances that ended recently, so that
 * these runs are deleted first. Returns the number of removed objects.
 */
async function removeArchived(env: EngineEnv, tenantId: string): Promise<number> {
  const { objects } = await env.PAYLOADS.list({ prefix: folderOf(tenantId), limit: ROWS });
  const names = objects.map(({ key }) => key);
  const since = Date.now() - REMEMBERED_DAYS * DAY_MS;
  const recent = names.find((name) => movedAt(name) > since);
  for (const member of (recent && (await membersOf(env.PAYLOADS, recent))?.members) || []) {
    const { millrace_instances: rows } = await rowsOf(member);
    for (const row of rows) if (Number(row.updated_at) > since) await deleteOnPlatform(env, runOf(row));
  }
  const gone = recent === undefined ? names : [recent];
  if (gone.length > 0) await env.PAYLOADS.delete(gone);
  return gone.length;
}

/** Removes a tenant's unconfirmed messages. Reads the whole outbox, which contains only unconfirmed messages. */
export async function removeUnsent(env: EngineEnv, tenantId: string): Promise<number> {
  return (await query(env.DB, removeUnsentOf(tenantId))).length;
}

/**
 * Removes some of a tenant's rows of a table with a `tenant_id`. Returns the number of removed rows. The statement is built from a constant
 * list.
 */
export async function removeRows(env: EngineEnv, tenantId: string, table: string, key: readonly string[]): Promise<number> {
  const some = ["SELECT", key.join(), "FROM", table, "WHERE tenant_id = ?1 LIMIT", String(ROWS)].join(" ");
  const words = ["DELETE FROM", table, `WHERE tenant_id = ?1 AND (${key}) IN (${some}) RETURNING 1 AS gone`];
  const remove: Statement = { text: words.join(" "), params: [tenantId] };
  const statements = table === "millrace_actions" ? auditOpened([remove]) : [remove];
  const removed = await Promise.all(databasesOf(env, table).map((db) => atomically(db, statements)));
  return removed.flat(2).length;
}

export async function countRows(env: EngineEnv, tenantId: string, table: string): Promise<number> {
  const count: Statement = { text: ["SELECT count(*) AS count FROM", table, "WHERE tenant_id = ?1"].join(" "), params: [tenantId] };
  const rows = await Promise.all(databasesOf(env, table).map((db) => query(db, count)));
  return rows.flat().reduce((sum, row) => sum + Number(row.count), 0);
}

function databasesOf(env: EngineEnv, table: string): D1Database[] {
  return table === "millrace_cells" || table === "millrace_moved" ? cellsOf(env).map(({ DB }) => DB) : [env.DB];
}

/** Bindings of Durable Objects that may contain a tenant's data. A deployment has only the bindings that it uses. */
type ObjectsEnv = EngineEnv & LaneEnv & LockEnv & Partial<Record<Exclude<TenantObject["binding"], "ARCHIVE">, DurableObjectNamespace>>;

/** Maximum number of objects erased in one slice. */
const OBJECTS = 25;

/**
 * Erases some of a tenant's rooms, pull queues, blocked lanes and held locks. Returns the number of erased objects, which is 0 when no
 * object is left. A lane that is not blocked is erased together with the instances that it started. The row that locates an object is
 * removed after the object, so that the erasure continues after a crash.
 */
export async function eraseObjects(env: ObjectsEnv, tenantId: string): Promise<number> {
  const objects = await query<TenantObject & Record<string, unknown>>(env.DB, selectObjects(tenantId, OBJECTS));
  const lanes = await query<{ lane: string; key: string }>(
    env.DB,
    sql`SELECT lane, key FROM millrace_lanes WHERE tenant_id = ${tenantId} LIMIT ${OBJECTS}`,
  );
  const locks = await query<{ name: string; token: number }>(env.DB, selectLocks(tenantId, "", OBJECTS));
  await Promise.all([
    ...objects.map(({ binding, name }) =>
      binding === "ARCHIVE"
        ? within(env.PAYLOADS.delete(objectName(tenantId, name)))
        : eraseObject(objectsIn(env, binding)?.getByName(name, placed(env))),
    ),
    eraseLanes(env, tenantId, lanes),
    ...locks.map(({ name }) => objectsIn(env, "LOCK") && within(lockObject(env, { tenantId, name }).erase())),
  ]);
  const rows: Statement[] = [
    ...objects.map(unregisterObject),
    ...lanes.map(({ lane, key }) => forgetLane({ tenantId, lane, key })),
    ...locks.map(({ name, token }) => unlistLock({ tenantId, name }, token)),
  ];
  if (rows.length > 0) await atomically(env.DB, rows);
  return rows.length;
}

async function eraseLanes(env: LaneEnv, tenant: string, lanes: readonly { lane: string; key: string }[]): Promise<void> {
  if (!objectsIn(env, "LANES")) return;
  await Promise.all(lanes.map(({ lane, key }) => within(laneObjectOf(env, { lane, tenant, key }).erase())));
}

/** Erases an object. An object without a binding no longer exists. */
async function eraseObject(object: DurableObjectStub | undefined): Promise<void> {
  if (object) await within((object as unknown as { erase(): Promise<unknown> }).erase());
}

export interface PlatformInstance {
  id: string;
  workflow: string;
  undo: string | null;
}

/** The run of an instance's row. */
export function runOf({ id, workflow, undo }: Readonly<Record<string, unknown>>): PlatformInstance {
  return { id: String(id), workflow: String(workflow), undo: typeof undo === "string" ? undo : null };
}

/** Deletes a run on the platform, with its parameters and the results of its steps. A run that no longer exists is ignored. */
export async function deleteOnPlatform(env: EngineEnv, { id, workflow, undo }: PlatformInstance): Promise<void> {
  for (const name of [id, ...(undo === null ? [] : [platformId(id, undo)])]) {
    try {
      const instance = await within(workflowBinding(env, workflow).get(name));
      await within(instance.delete());
    } catch (error) {
      if (!/not.?found|does not exist/i.test(messageOf(error))) throw error;
    }
  }
}
