import { objectName } from "../archive/object.ts";
import { type EngineEnv, objectsIn } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { type LaneEnv, laneObjectOf } from "../lanes/stub.ts";
import { type LockEnv, lockObject } from "../locks/client.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { forgetLane } from "../store/lanes.ts";
import { selectLocks, unlistLock } from "../store/locks.ts";
import { selectObjects, type TenantObject, unregisterObject } from "../store/tenant-objects.ts";

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

export async function eraseLanes(env: LaneEnv, tenant: string, lanes: readonly { lane: string; key: string }[]): Promise<void> {
  if (!objectsIn(env, "LANES")) return;
  await Promise.all(lanes.map(({ lane, key }) => within(laneObjectOf(env, { lane, tenant, key }).erase())));
}

/** Erases an object. An object without a binding no longer exists. */
async function eraseObject(object: DurableObjectStub | undefined): Promise<void> {
  if (object) await within((object as unknown as { erase(): Promise<unknown> }).erase());
}
