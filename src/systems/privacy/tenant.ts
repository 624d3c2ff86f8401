import { type Commit, ids, query, type Statement, sql } from "millrace";
import { audit, erasure, type Instance, instances, type Operator, statuses, tokens } from "millrace/operate";
import { brandAgentOf } from "../brand/brand-agents.ts";
import { budgetOf } from "../facts/derived/budgets.ts";
import { contactBookOf } from "../facts/derived/contact-books.ts";
import { ledgerOf } from "../facts/ledger/ledgers.ts";
import { APP_TENANT_TABLES, withoutPrefix } from "./tables.ts";

type Counts = Record<string, number>;

/** The command that deletes a tenant. */
export interface DeleteCall {
  env: Env;
  tenantId: string;
  /** The command's own instance, which remains until the end. */
  instanceId: string;
}

interface Place {
  name: string;
  /** Removes some data of a tenant, and returns the number of removed rows. The result is 0 if no data remain. */
  remove: (call: DeleteCall) => Promise<number>;
}

/** `OBJECTS` is the maximum number of objects that one slice calls. `FILES` is the maximum number of files that one call removes. */
const OBJECTS = 25;
const FILES = 1000;
/** A tenant's folders in the bucket of payloads. */
const FOLDERS = ["payloads", "outputs", "batches", "archive", "files"] as const;
/** Tables whose rows contain names of objects. These rows are removed after the objects. */
const NAMES_OBJECTS = new Set(["ledgers", "brands", "budget_accounts", "millrace_tenant_objects", "millrace_lanes", "millrace_locks"]);

const TABLES = Object.entries({ ...erasure.tenantTables, ...APP_TENANT_TABLES });

/** The places from which data is removed, in order: first the sources of new data, then running work, then the records of work. */
const PLACES: readonly Place[] = [
  ...rowsIn(["millrace_tokens", "millrace_schedules"]),
  { name: "instances under way", remove: ({ env, tenantId, instanceId }) => erasure.stopInstances(env, tenantId, instanceId) },
  { name: "outbox", remove: ({ env, tenantId }) => erasure.removeUnsent(env, tenantId) },
  { name: "rooms, pull queues, lanes and locks", remove: ({ env, tenantId }) => erasure.objects(env, tenantId) },
  { name: "ledger objects", remove: eraseLedgers },
  { name: "brand agents", remove: eraseBrands },
  { name: "budget objects", remove: eraseBudgets },
  { name: "contact book", remove: async ({ env, tenantId }) => Number(await contactBookOf(env, tenantId).erase()) },
  { name: "instances", remove: ({ env, tenantId, instanceId }) => erasure.removeInstances(env, tenantId, instanceId) },
  ...rowsIn(
    TABLES.map(([table]) => table).filter(
      (table) => !NAMES_OBJECTS.has(table) && !["millrace_tokens", "millrace_schedules"].includes(table),
    ),
  ),
  ...FOLDERS.map((folder) => ({
    name: `${folder} files`,
    remove: ({ env, tenantId }: DeleteCall) => removeFiles(env.PAYLOADS, `${folder}/${tenantId}/`),
  })),
  { name: "pages", remove: ({ env, tenantId }) => removeFiles(env.PAGES, `${tenantId}/`) },
];

export async function tenantPreview(env: Env, tenantId: string): Promise<Counts> {
  const tables = ["millrace_instances", "millrace_approvals", "millrace_waits", ...TABLES.map(([table]) => table)];
  const counted = await Promise.all(
    tables.map(async (table) => [withoutPrefix(table), await erasure.countRows(env, tenantId, table)] as const),
  );
  const files = await Promise.all(
    FOLDERS.map(
      async (folder) => [`${folder} files`, (await env.PAYLOADS.list({ prefix: `${folder}/${tenantId}/` })).objects.length] as const,
    ),
  );
  return Object.fromEntries([...counted, ...files].filter(([, count]) => count > 0));
}

/**
 * Maximum number of tokens that this isolate revokes immediately. Further tokens end within 30 seconds, and so do all of the tenant's
 * tokens in other isolates.
 */
const TOLD_AT_ONCE = 50;

/** Revokes a tenant's tokens, including the caller's, so that no new data arrives after the response. */
export async function endTokens(env: Env, by: Operator, reason: string): Promise<void> {
  const { items } = await tokens.list(env, by, { limit: TOLD_AT_ONCE });
  await Promise.all(items.map(({ id }) => tokens.revoke(env, by, id, reason)));
  while ((await erasure.removeRows(env, by.tenantId, "millrace_tokens", ["id"])) > 0);
}

/**
 * Returns an earlier running command that deletes the same tenant. The earlier command continues and the later command stops, so that the
 * two commands do not end each other.
 */
async function olderThan({ env, tenantId, instanceId }: DeleteCall): Promise<string | undefined> {
  const by = { tenantId, actor: "" };
  const place = ({ accepted_at, id }: Instance) => `${accepted_at} ${id}`;
  const own = await instances.get(env, by, instanceId);
  const pages = await Promise.all(statuses.underWay.values.map((status) => instances.list(env, by, { status, workflow: own.workflow })));
  return pages.flatMap(({ items }) => items).find((one) => place(one) < place(own))?.id;
}

/**
 * Removes data for a limited time. Returns the counts of removed rows, and `over` if the pass is complete. A pass that removes no rows is
 * the last pass. The call does nothing if another instance (`older`) continues the deletion.
 */
export async function removeOn(call: DeleteCall, forMs: number): Promise<{ removed: Counts; over: boolean; older?: string }> {
  const older = await olderThan(call);
  if (older !== undefined) return { removed: {}, over: true, older };
  const stopAt = Date.now() + forMs;
  const removed: Counts = {};
  for (const { name, remove } of PLACES) {
    for (let gone = -1; gone !== 0; ) {
      if (Date.now() > stopAt) return { removed, over: false };
      gone = await remove(call);
      if (gone > 0) removed[name] = (removed[name] ?? 0) + gone;
    }
  }
  return { removed, over: true };
}

/** The permanent record of a tenant's deletion: the author, the reason, and the counts of removed rows. */
export function deleted(
  { tenantId, instanceId }: DeleteCall,
  by: { actor: string; reason: string },
  removed: Counts,
): Commit<{ removed: Counts }> {
  const action = {
    id: ids.digest("delete tenant", instanceId),
    verb: "delete_tenant",
    target: tenantId,
    instanceId,
    reason: by.reason,
    detail: { removed },
  } as const;
  return { statements: [instances.touch(instanceId, tenantId), audit({ tenantId, actor: by.actor }, action, false)], output: { removed } };
}

function rowsIn(tables: readonly string[]): Place[] {
  const keys = new Map(TABLES);
  return tables.map((table) => ({
    name: withoutPrefix(table),
    remove: ({ env, tenantId }) => erasure.removeRows(env, tenantId, table, keys.get(table) ?? []),
  }));
}

async function eraseLedgers({ env, tenantId }: DeleteCall): Promise<number> {
  const rows = await query<{ entity: string }>(env.DB, sql`SELECT entity FROM ledgers WHERE tenant_id = ${tenantId} LIMIT ${OBJECTS}`);
  const entities = rows.map(({ entity }) => entity);
  await Promise.all(entities.map((entity) => ledgerOf(env, tenantId, entity).erase()));
  // Each charged account has a budget, even without a limit.
  const accounts = entities.flatMap((entity) => (entity.startsWith("account/") ? [entity.slice("account/".length)] : []));
  await Promise.all(accounts.map((account) => budgetOf(env, tenantId, account).erase()));
  await forgetNames(env, sql`DELETE FROM ledgers WHERE tenant_id = ${tenantId} AND entity IN ${sql.among(entities)}`);
  return entities.length;
}

async function eraseBrands({ env, tenantId }: DeleteCall): Promise<number> {
  const rows = await query<{ brand: string }>(env.DB, sql`SELECT brand FROM brands WHERE tenant_id = ${tenantId} LIMIT ${OBJECTS}`);
  const brands = rows.map(({ brand }) => brand);
  await Promise.all(brands.map((brand) => brandAgentOf(env, tenantId, brand).erase()));
  await forgetNames(env, sql`DELETE FROM brands WHERE tenant_id = ${tenantId} AND brand IN ${sql.among(brands)}`);
  return brands.length;
}

async function eraseBudgets({ env, tenantId }: DeleteCall): Promise<number> {
  const rows = await query<{ account: string }>(
    env.DB,
    sql`SELECT account FROM budget_accounts WHERE tenant_id = ${tenantId} LIMIT ${OBJECTS}`,
  );
  const accounts = rows.map(({ account }) => account);
  await Promise.all(accounts.map((account) => budgetOf(env, tenantId, account).erase()));
  await forgetNames(env, sql`DELETE FROM budget_accounts WHERE tenant_id = ${tenantId} AND account IN ${sql.among(accounts)}`);
  return accounts.length;
}

async function forgetNames({ DB }: Env, statement: Statement): Promise<void> {
  await query(DB, statement);
}

async function removeFiles(bucket: R2Bucket, prefix: string): Promise<number> {
  const { objects } = await bucket.list({ prefix, limit: FILES });
  if (objects.length > 0) await bucket.delete(objects.map(({ key }) => key));
  return objects.length;
}
