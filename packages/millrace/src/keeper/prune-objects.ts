import { ARCHIVE_FOLDER, movedAt } from "../archive/object.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { cellsOf } from "../contract/cells.ts";
import { among, sql } from "../contract/sql.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { selectPruned } from "../store/tombstones.ts";
import type { Slice } from "./sweep.ts";

/** The platform's maximum number of objects in one list call or one delete call. */
const OBJECTS = 1000;

/**
 * Removes old payloads and outputs that no row references, such as objects of removed instances, and of commands that were never committed.
 * The function scans the bucket by name, which takes two operations for 1,000 objects. Only old objects are searched in the database.
 *
 * `keepMs` must cover references that no table contains: a message in a queue (14 days) and in its dead-letter queue (14 more).
 */
export async function pruneObjects(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  // The cells share the bucket. The keeper of the first cell searches the databases of all cells.
  if (env.CELL !== undefined) return { removed: 0, next: null };
  const prefix = from === null || from.startsWith("outputs/") ? "outputs/" : "payloads/";
  const { objects, truncated } = await env.PAYLOADS.list({ prefix, limit: OBJECTS, ...(from !== null && { startAfter: from }) });
  const before = Date.now() - keepMs;
  const old = objects.filter(({ uploaded }) => uploaded.getTime() <= before).map(({ key }) => key);
  const gone = old.length > 0 ? await unreferred(env, prefix, old) : [];
  if (gone.length > 0) await env.PAYLOADS.delete(gone);
  const last = truncated ? objects.at(-1)?.key : undefined;
  return { removed: gone.length, next: last ?? (prefix === "outputs/" ? "payloads/" : null) };
}

/** Removes old objects of archived instances. An object without a tombstone is a copy that was not used, and is removed at the same age. */
export async function pruneArchived(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  const { objects, truncated } = await env.PAYLOADS.list({
    prefix: ARCHIVE_FOLDER,
    limit: OBJECTS,
    ...(from !== null && { startAfter: from }),
  });
  const old = objects.map(({ key }) => key).filter((key) => movedAt(key) <= Date.now() - keepMs);
  if (old.length > 0) await env.PAYLOADS.delete(old);
  return { removed: old.length, next: truncated ? (objects.at(-1)?.key ?? null) : null };
}

async function unreferred(env: EngineEnv, prefix: string, keys: readonly string[]): Promise<string[]> {
  const [nameOf, referredAmong] = prefix === "outputs/" ? [instanceOf, instancesAmong] : [refOf, refsAmong];
  const found = await Promise.all(cellsOf(env).map((cell) => referredAmong(cell, keys.map(nameOf))));
  return keys.filter((key) => !found.some((known) => known.has(nameOf(key))));
}

const refOf = (key: string) => `r2://${key}`;

/**
 * The instance id of `outputs/<tenant>/<instance>/…`. The output of each attempt remains while the instance has a row, because the platform
 * may read the output in any later replay, and while the instance is archived.
 */
const instanceOf = (key: string) => key.split("/")[2] ?? "";

async function instancesAmong(env: EngineEnv, ids: readonly string[]): Promise<Set<string>> {
  const some = [...new Set(ids)];
  const known = sql`SELECT id, 1 AS archived FROM millrace_instances WHERE id IN ${among(some)}`;
  const found = (await atomically(env.DB, [known, selectPruned(some)])).flat();
  return new Set(found.flatMap(({ id, archived }) => (archived === 1 ? [String(id)] : [])));
}

/** Returns the payloads with a reference from an instance, a stored event, an unconfirmed message or an open dead letter. */
async function refsAmong(env: EngineEnv, refs: readonly string[]): Promise<Set<string>> {
  const found = await query<{ ref: string }>(
    env.DB,
    sql`
      SELECT r.value AS ref FROM json_each(${JSON.stringify(refs)}) r
      WHERE EXISTS (SELECT 1 FROM millrace_instances WHERE envelope->>'payload_ref' = r.value)
        OR EXISTS (SELECT 1 FROM millrace_signals WHERE envelope->>'payload_ref' = r.value)
        OR r.value IN (
          SELECT iif(json_valid(body), body->>'payload_ref', NULL) FROM millrace_dead_letters
            WHERE state = 'open' AND instr(body, 'r2://') > 0
          UNION ALL SELECT iif(json_valid(body), body->>'payload_ref', NULL) FROM millrace_outbox WHERE instr(body, 'r2://') > 0)`,
  );
  return new Set(found.map(({ ref }) => ref));
}
