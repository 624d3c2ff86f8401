import { type ArchivedRows, type ArchivedTable, type Member, MOST_MEMBERS, memberOf, objectName, putMembers } from "../archive/object.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { among, now, sql } from "../contract/sql.ts";
import { removeQuestions } from "../store/approvals.ts";
import { namedBatch } from "../store/d1/named.ts";
import { atomically, query, type Row } from "../store/d1/retry.ts";
import { removeLettersOfDead } from "../store/dead-letters.ts";
import { removeEntries } from "../store/inbox/read.ts";
import { isOver, type Old, ofGone, removeOver } from "../store/instances/remove.ts";
import { FAILED, type StatusSet } from "../store/instances/status.ts";
import { forgetArchives, noteArchives } from "../store/tenant-objects.ts";
import { bury, selectMovedTo } from "../store/tombstones.ts";
import { removeWaits } from "../store/waits.ts";
import type { Slice } from "./sweep.ts";

/**
 * Maximum number of instances that one slice scans and removes. Together with the instances' inbox entries, a slice writes a few thousand
 * rows.
 */
const ROWS = 250;

interface Walked {
  place: number;
  id: string;
  young: number;
  over: number;
}

/**
 * Removes old instances with the given statuses, with their entries, waits and approvals. Each removed instance leaves a tombstone, so that
 * its key never runs again, even after a skip. Rows are numbered in the order of acceptance. The scan goes from the oldest row to the first
 * young row, without an index. The scan reads only rows that are removed, and older rows that are still in progress. If the deployment
 * archives instances, the rows are copied to R2 before their removal.
 */
export function pruneInstances(statuses: StatusSet): (env: EngineEnv, keepMs: number, from: string | null) => Promise<Slice> {
  return async (env, usualMs, from) => {
    const archiveMs = archiveAfterMs(env);
    // Failed instances remain for the time within which an operator can retry them.
    const keepMs = archiveMs === undefined ? usualMs : statuses === FAILED ? Math.max(archiveMs, usualMs) : archiveMs;
    const old = { statuses, keepMs };
    const walked = await query<Walked>(
      env.DB,
      sql`
        SELECT rowid AS place, id, accepted_at > ${now} - ${keepMs} AS young, ${isOver(old)} AS over
        FROM millrace_instances WHERE rowid > ${Number(from ?? Number.MIN_SAFE_INTEGER)} ORDER BY rowid LIMIT ${ROWS}`,
    );
    const over = walked.filter((row) => row.over === 1).map(({ id }) => id);
    const last = walked.at(-1);
    const next = last && !last.young && walked.length === ROWS ? String(last.place) : null;
    if (archiveMs === undefined) return { removed: (await remove(env, over, old)).size, next };
    const load = await loadOf(env, over);
    if (load.tenants.size === 0) return { removed: 0, next };
    const ids = [...load.tenants.values()].flat();
    const removed = await archive(env, load, (object) => remove(env, ids, { ...old, object }, [...load.tenants.keys()]));
    const rest = walked.find(({ id }) => id === load.rest);
    return { removed, next: rest === undefined ? next : String(rest.place - 1) };
  };
}

/**
 * Removes instances in one atomic write, with the notes of their objects. An instance that an operator has reopened since the scan remains.
 * Returns the ids of the removed instances.
 */
async function remove(env: EngineEnv, candidates: readonly string[], old: Old, noted: readonly string[] = []): Promise<Set<string>> {
  if (candidates.length === 0) return new Set();
  const { removed, moved } = await namedBatch(env.DB, {
    buried: bury(candidates, old),
    letters: removeLettersOfDead(candidates, old),
    removed: removeOver(candidates, old),
    belonging: [
      removeEntries(sql`${ofGone(candidates)}`),
      removeWaits(sql`${ofGone(candidates)}`),
      removeQuestions(sql`${ofGone(candidates)}`),
    ],
    noted: noted.length === 0 ? [] : [forgetArchives(noted)],
    // After a lost answer the batch is repeated and removes nothing. The tombstones show the instances of the first batch.
    moved: old.object === undefined ? [] : [selectMovedTo(old.object, candidates)],
  });
  return new Set((old.object === undefined ? removed : moved).map(({ id }) => String(id)));
}

const DAY_MS = 86_400_000;
/** The bounds of one slice: the tenants, each of which gets an object, and the characters of the moved rows. */
const TENANTS = 20;
const CHARACTERS = 4_000_000;
/** An instance with more characters remains in the database, because the keeper could not hold its rows in memory. */
const MOST_CHARACTERS = 16_000_000;

/** The age at which instances move to R2, in milliseconds; undefined if instances are deleted. Errors: `config_invalid`. */
function archiveAfterMs({ ARCHIVE_AFTER_DAYS }: EngineEnv): number | undefined {
  if (ARCHIVE_AFTER_DAYS === undefined || ARCHIVE_AFTER_DAYS === "") return undefined;
  const days = Number(ARCHIVE_AFTER_DAYS);
  if (Number.isInteger(days) && days >= 1 && days <= 400) return days * DAY_MS;
  const said = `The variable ARCHIVE_AFTER_DAYS is "${ARCHIVE_AFTER_DAYS}". Set it to a whole number of days from 1 to 400, or remove it.`;
  throw new MillraceError("config_invalid", said);
}

/** The instances of one slice that move to R2. */
interface Load {
  /** The ids by tenant. */
  readonly tenants: ReadonlyMap<string, readonly string[]>;
  /** The first candidate that did not fit; undefined if all candidates fit. */
  readonly rest: string | undefined;
}

/** Selects the first candidates that fit in one slice. */
async function loadOf({ DB }: EngineEnv, candidates: readonly string[]): Promise<Load> {
  const sizes = await query<{ id: string; tenant: string; size: number }>(
    DB,
    sql`
      SELECT i.id, i.tenant_id AS tenant, length(i.envelope) + coalesce(length(i.result), 0) + coalesce(length(i.caught), 0)
        + coalesce((SELECT sum(300 + coalesce(length(input), 0) + coalesce(length(output), 0) + coalesce(length(messages), 0)
          + coalesce(length(error), 0) + coalesce(length(after), 0) + coalesce(length(caught), 0))
          FROM millrace_inbox WHERE millrace_inbox.instance_id = i.id), 0)
        + coalesce((SELECT sum(300 + coalesce(length(s.envelope), 0)) FROM millrace_waits w
          LEFT JOIN millrace_signals s ON s.id = w.signal_id WHERE w.instance_id = i.id), 0) AS size
      FROM json_each(${JSON.stringify(candidates)}) c CROSS JOIN millrace_instances i ON i.id = c.value`,
  );
  const byId = new Map(sizes.map((one) => [one.id, one]));
  const tenants = new Map<string, string[]>();
  let [count, characters] = [0, 0];
  for (const id of candidates) {
    const one = byId.get(id);
    if (one === undefined) continue;
    if (one.size > MOST_CHARACTERS) {
      const error = `The instance ${id} has ${one.size} characters, and remains in the database.`;
      logLine("warn", { log: "retention", error });
      continue;
    }
    characters += one.size;
    const isFull = count === MOST_MEMBERS || characters > CHARACTERS || (!tenants.has(one.tenant) && tenants.size === TENANTS);
    if (count > 0 && isFull) return { tenants, rest: id };
    tenants.set(one.tenant, [...(tenants.get(one.tenant) ?? []), id]);
    count++;
  }
  return { tenants, rest: undefined };
}

/** The number of the last object of this isolate. Two slices within a millisecond need two numbers. */
let last = 0;

/**
 * Copies instances to R2, one object per tenant, and then calls `remove`, which replaces the rows by tombstones. Each object is noted in the
 * database before it is written, and the batch of `remove` removes the notes and needs them. A note of an earlier slice therefore belongs to
 * an object that no tombstone names, and the object is deleted.
 */
async function archive(env: EngineEnv, { tenants }: Load, remove: (object: number) => Promise<ReadonlySet<string>>): Promise<number> {
  const named = [...tenants.keys()];
  const unfinished = await query<{ tenantId: string; name: string }>(env.DB, forgetArchives(named));
  if (unfinished.length > 0) await env.PAYLOADS.delete(unfinished.map(({ tenantId, name }) => objectName(tenantId, name)));
  last = Math.max(Date.now(), last + 1);
  const object = last;
  await atomically(env.DB, [noteArchives(named, object)]);
  await crashPoint("instances noted for R2, not copied");
  const ids = [...tenants.values()].flat();
  const rows = await readRows(env, ids);
  for (const [tenant, own] of tenants) {
    const members: Member[] = [];
    for (const id of own) members.push(await memberOf(id, rows(id)));
    await putMembers(env.PAYLOADS, objectName(tenant, object), members);
  }
  await crashPoint("instances copied to R2, not removed");
  const removed = await remove(object);
  // An erased tenant has no note, so that its rows were not replaced, and nothing may remain of it.
  const unused = [...tenants].filter(([, own]) => !own.some((id) => removed.has(id))).map(([tenant]) => objectName(tenant, object));
  if (unused.length > 0) await env.PAYLOADS.delete(unused);
  await crashPoint("instances moved to R2, slice not recorded");
  return removed.size;
}

async function readRows({ DB }: EngineEnv, ids: readonly string[]): Promise<(id: string) => ArchivedRows> {
  const found = await namedBatch<ArchivedTable>(DB, {
    millrace_instances: sql`SELECT * FROM millrace_instances WHERE id IN ${among(ids)}`,
    millrace_inbox: sql`SELECT * FROM millrace_inbox WHERE instance_id IN ${among(ids)}`,
    millrace_waits: sql`SELECT * FROM millrace_waits WHERE instance_id IN ${among(ids)}`,
    millrace_approvals: sql`SELECT * FROM millrace_approvals WHERE instance_id IN ${among(ids)}`,
    millrace_signals: sql`
      SELECT DISTINCT w.instance_id, s.* FROM millrace_waits w JOIN millrace_signals s ON s.id = w.signal_id
      WHERE w.instance_id IN ${among(ids)}`,
  });
  const tables = Object.entries(found).map(
    ([table, rows]) => [table, Map.groupBy(rows, (row: Row) => String(table === "millrace_instances" ? row.id : row.instance_id))] as const,
  );
  return (id) => Object.fromEntries(tables.map(([table, byId]) => [table, byId.get(id) ?? []])) as unknown as ArchivedRows;
}
