import { ids, query, type Statement, sql } from "millrace";
import { instances, keysetPage, type Page, type PageRequest } from "millrace/operate";

export const SYNC_STATES = ["running", "complete", "errored"] as const;

/** A bulk sync: its row and the status of its instance. */
export interface Sync {
  syncId: string;
  scope: "changed" | "all";
  instanceId: string;
  /** `errored` if the sync's instance has failed, until an operator retries the instance. */
  state: (typeof SYNC_STATES)[number];
  /** Number of contacts that the CRM accepted. */
  done: number;
  /** Number of contacts that the CRM refused. `waiting` is the number of those contacts that the running sync will retry. */
  failed: number;
  waiting: number;
  /** Number of contacts without changes. */
  skipped: number;
  /** Number of contacts that are aliases of another contact. */
  merged: number;
  /** Number of contacts to which a change in the CRM was copied. */
  taken: number;
  chunks: number;
  error: { code: string; message: string } | null;
  startedAt: number;
  updatedAt: number;
  endedAt: number | null;
}

const INSTANCE = instances.find("s");
const IS_STOPPED = `s.ended_at IS NULL AND ${INSTANCE.isStopped.fragment}`;

const SELECT =
  sql.fragment(`SELECT s.sync_id AS syncId, s.scope, s.instance_id AS instanceId, iif(${IS_STOPPED}, 'errored', s.state) AS state,
    s.done, s.failed, s.skipped, s.merged, s.taken, s.chunks, s.started_at AS startedAt, s.updated_at AS updatedAt, s.ended_at AS endedAt,
    (SELECT count(*) FROM crm_failures f WHERE f.tenant_id = s.tenant_id AND f.sync_id = s.sync_id AND f.state = 'waiting') AS waiting,
    iif(${IS_STOPPED}, ${INSTANCE.error.fragment}, NULL) AS error
    FROM crm_syncs s ${INSTANCE.join.fragment}`);

/** Finds a sync of the tenant that has finished at least one chunk. */
export async function findSync(db: D1Database, tenantId: string, syncId: string): Promise<Sync | undefined> {
  const [row] = await query(db, sql`${SELECT} WHERE s.tenant_id = ${tenantId} AND s.sync_id = ${syncId}`);
  return row && asSync(row);
}

/** Finds a sync that was requested with the default key and has not finished a chunk yet. */
export async function findAcceptedSync(db: D1Database, tenantId: string, syncId: string): Promise<Sync | undefined> {
  const id = ids.instance(tenantId, "sync-contacts", syncId);
  const fate = await instances.fate(db, tenantId, id);
  if (fate?.subject !== syncId) return undefined;
  const { payload, isStopped, error, acceptedAt, updatedAt } = fate;
  const { scope = "changed" } = (payload ?? {}) as Partial<Pick<Sync, "scope">>;
  const nothing = { done: 0, failed: 0, waiting: 0, skipped: 0, merged: 0, taken: 0, chunks: 0 };
  const state = isStopped ? "errored" : "running";
  return { syncId, scope, instanceId: id, state, ...nothing, error, startedAt: acceptedAt, updatedAt, endedAt: null };
}

/** The tenant's syncs, newest first. */
export function listSyncs(db: D1Database, tenantId: string, request: PageRequest): Promise<Page<Sync>> {
  return keysetPage(
    request,
    ({ startedAt, syncId }) => ({ at: startedAt, id: syncId }),
    async (before, limit) => {
      const rows = await query(
        db,
        sql`
          ${SELECT} WHERE s.tenant_id = ${tenantId} AND (s.started_at, s.sync_id) < (${before.at}, ${before.id})
          ORDER BY s.started_at DESC, s.sync_id DESC LIMIT ${limit}`,
      );
      return rows.map(asSync);
    },
  );
}

interface Advance {
  done: number;
  skipped: number;
  merged: number;
  taken: number;
  ends: boolean;
}

/**
 * Adds a chunk's counts to a sync. The first chunk creates the sync's row. The statement must be committed exactly once, after the
 * statements that record the chunk's failures.
 */
export function advanceSync(
  { tenantId, syncId, scope, instanceId }: Pick<Sync, "syncId" | "scope" | "instanceId"> & { tenantId: string },
  { done, skipped, merged, taken, ends }: Advance,
): Statement {
  const state = ends ? "complete" : "running";
  const failed = sql`
    (SELECT count(*) FROM crm_failures f WHERE f.tenant_id = ${tenantId} AND f.sync_id = ${syncId} AND f.state = 'failed')`;
  return sql`
    INSERT INTO crm_syncs (tenant_id, sync_id, scope, instance_id, state, done, failed, skipped, merged, taken, chunks,
      started_at, updated_at, ended_at)
    VALUES (${tenantId}, ${syncId}, ${scope}, ${instanceId}, ${state}, ${done}, ${failed}, ${skipped}, ${merged}, ${taken}, 1,
      ${sql.now}, ${sql.now}, iif(${state} = 'complete', ${sql.now}, NULL))
    ON CONFLICT (tenant_id, sync_id) DO UPDATE SET
      state = excluded.state, done = crm_syncs.done + excluded.done, failed = excluded.failed,
      skipped = crm_syncs.skipped + excluded.skipped,
      merged = crm_syncs.merged + excluded.merged, taken = crm_syncs.taken + excluded.taken, chunks = crm_syncs.chunks + 1,
      updated_at = excluded.updated_at, ended_at = excluded.ended_at`;
}

function asSync(row: Record<string, unknown>): Sync {
  const { error, ...rest } = row;
  return { ...rest, error: typeof error === "string" ? JSON.parse(error) : null } as Sync;
}
