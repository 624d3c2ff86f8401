import { type ArchivedRows, type ArchivedTable, folderOf, memberOf, membersOf, putMembers, rowsOf } from "../archive/object.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import type { SqlValue, Statement } from "../contract/sql.ts";
import { auditOpened } from "../store/audit-opened.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { OVER } from "../store/instances/status.ts";
import { selectArchiving } from "../store/tenant-objects.ts";
import { deleteOnPlatform, type PlatformInstance, runOf } from "./remove-tenant.ts";

/** A table with strings that callers or upstreams have sent. */
export interface TextTable {
  readonly table: string;
  /** The key columns of a row within its tenant. */
  readonly key: readonly string[];
  /** Columns that contain strings or JSON. */
  readonly texts: readonly string[];
  /** The columns of an index after `tenant_id`, in whose order rows are scanned. `instance` scans in the order of the rows' instances. */
  readonly order: readonly string[] | "instance";
}

/**
 * The engine's tables with strings that callers or upstreams have sent. Messages in the outbox will soon be sent, so these messages are
 * only counted (`unsentSaying`).
 */
export const ENGINE_TEXTS: readonly TextTable[] = [
  {
    table: "millrace_inbox",
    key: ["instance_id", "step", "item", "generation"],
    texts: ["item", "input", "output", "messages", "error", "after", "caught"],
    order: "instance",
  },
  { table: "millrace_waits", key: ["instance_id", "name"], texts: ["name", "subject"], order: "instance" },
  { table: "millrace_approvals", key: ["instance_id", "step"], texts: ["question", "details", "reason"], order: "instance" },
  {
    table: "millrace_instances",
    key: ["id"],
    texts: [
      ...["idempotency_key", "correlation_id", "causation_id", "subject", "envelope", "error", "caught", "lost", "progress"],
      ...["parent_step", "result"],
    ],
    order: ["accepted_at", "id"],
  },
  {
    table: "millrace_dead_letters",
    key: ["id"],
    texts: ["idempotency_key", "correlation_id", "body", "issues", "error", "escalation", "repair"],
    order: ["state", "captured_at", "id"],
  },
  { table: "millrace_failed_deliveries", key: ["letter"], texts: ["error"], order: ["letter"] },
  { table: "millrace_signals", key: ["id"], texts: ["subject", "envelope"], order: ["type", "subject", "received_at", "id"] },
  { table: "millrace_actions", key: ["id"], texts: ["target", "reason", "detail", "before", "after", "error"], order: ["at", "id"] },
  { table: "millrace_bulk_actions", key: ["id"], texts: ["asked", "reason", "why"], order: ["created_at", "id"] },
  { table: "millrace_bulk_lists", key: ["bulk_id", "n"], texts: ["ids"], order: ["bulk_id", "n"] },
  { table: "millrace_bulk_items", key: ["bulk_id", "result", "n"], texts: ["target", "why"], order: ["bulk_id", "result", "n"] },
  { table: "millrace_schedules", key: ["name"], texts: ["name", "payload"], order: ["name"] },
  { table: "millrace_lanes", key: ["lane", "key"], texts: ["key", "why", "head", "ahead"], order: ["lane", "key"] },
  { table: "millrace_divergences", key: ["kind", "what"], texts: ["place"], order: ["state", "first_at", "what"] },
  { table: "millrace_schedule_runs", key: ["name", "due_at", "state"], texts: ["name", "reason"], order: ["name", "due_at", "state"] },
];

/** How strings in rows are replaced. */
export interface Rewriter {
  /** Lower-case strings to search for. A row without any of these strings is skipped. */
  readonly mentions: readonly string[];
  /** Returns the new string, or the same string if no searched string occurs. `row` has further columns of the row. */
  rewrite(column: string, text: string, row: Readonly<Record<string, unknown>>): string;
}

export interface Rewritten {
  /** Number of rows that changed, or would change. */
  changed: number;
  /**
   * Number of rows of instances in progress. Rows of instances in progress are not changed, because the running code would write the old
   * strings again.
   */
  waiting: number;
  /** The position where the next slice of the table starts; null at the end of the table. */
  next: string | null;
}

/** Maximum number of rows scanned in one slice. */
const ROWS = 500;
/** Number of row updates that are committed together. */
const UPDATES = 50;

interface Walk {
  tenantId: string;
  table: TextTable;
  by: Rewriter;
  from: string | null;
  /** True changes the matching rows; false only counts the matching rows. */
  apply: boolean;
}

/**
 * Rewrites the strings in one slice of a tenant's rows. If an instance has matching strings, the instance's copy on the platform is deleted
 * first, because the copy cannot be rewritten. The call is safe to repeat. The statements are built from a constant list, and scan a table
 * in the order of an index. After the last instance of the table, the following calls rewrite the archived instances.
 */
export async function rewriteRows(env: EngineEnv, walk: Walk): Promise<Rewritten> {
  const { from, table } = walk;
  if (table.table !== "millrace_instances") return rewriteTable(env, walk);
  if (from?.startsWith(ARCHIVED))
    return ofArchive(await rewriteArchived(env, { ...walk, tables: ENGINE_TEXTS, from: from.slice(ARCHIVED.length) }));
  const found = await rewriteTable(env, walk);
  return { ...found, next: found.next ?? ARCHIVED };
}

/** The beginning of a position in the objects of archived instances, which follow the table of instances. */
const ARCHIVED = "archived:";

function ofArchive({ next, ...found }: Rewritten): Rewritten {
  return { ...found, next: next === null ? null : ARCHIVED + next };
}

async function rewriteTable(env: EngineEnv, { tenantId, table, by, from, apply }: Walk): Promise<Rewritten> {
  const { key, texts, order } = table;
  const owned = order === "instance";
  const place = owned ? ["i.accepted_at", "i.id"] : order.map((column) => `t.${column}`);
  const ofInstances = owned || table.table === "millrace_instances";
  const [walked, source] = owned
    ? ["millrace_instances i", `millrace_instances i CROSS JOIN ${table.table} t ON t.instance_id = i.id`]
    : [`${table.table} t`, `${table.table} t`];
  const row = owned ? "i" : "t";
  const begin = from === null ? [] : (JSON.parse(from) as SqlValue[]);
  const behind = begin.length > 0 ? [`AND (${place}) > (${begin.map((_, index) => `?${index + 2}`)})`] : [];
  const tenant = `WHERE ${row}.tenant_id = ?1`;
  const end = statement(
    [
      "SELECT",
      place.map((column, index) => `${column} AS p${index}`).join(),
      "FROM",
      walked,
      tenant,
      ...behind,
      "ORDER BY",
      place.join(),
      "LIMIT 1 OFFSET",
      String(ROWS - 1),
    ],
    [tenantId, ...begin],
  );
  const [last] = await query(env.DB, end);
  const until = last ? place.map((_, index) => last[`p${index}`] as SqlValue) : [];
  const upTo = last ? [`AND (${place}) <= (${until.map((_, index) => `?${begin.length + index + 2}`)})`] : [];
  const mentions = `?${begin.length + until.length + 2}`;
  const said = texts.map((column) => `coalesce(t.${column}, '')`).join(" || char(10) || ");
  const columns = [...new Set([...key, ...texts])].map((column) => `t.${column}`);
  const beside = ofInstances
    ? [
        `${row}.id AS of_instance`,
        `${row}.status AS of_status`,
        `${row}.workflow AS of_workflow`,
        `${row}.undo AS of_undo`,
        `${row}.message_type AS message_type`,
      ]
    : [];
  const find = statement(
    [
      "SELECT",
      [...columns, ...beside].join(),
      "FROM",
      source,
      tenant,
      ...behind,
      ...upTo,
      `AND EXISTS (SELECT 1 FROM json_each(${mentions}) m WHERE instr(lower(${said}), m.value) > 0)`,
    ],
    [tenantId, ...begin, ...until, JSON.stringify(by.mentions)],
  );
  const found = await query(env.DB, find);
  const meant = found.flatMap((one) => {
    const now = Object.fromEntries(
      texts.map((column) => [column, typeof one[column] === "string" ? by.rewrite(column, one[column], one) : one[column]]),
    );
    return texts.some((column) => now[column] !== one[column]) ? [{ one, now }] : [];
  });
  const free = ofInstances ? meant.filter(({ one }) => OVER.has(one.of_status)) : meant;
  if (apply) {
    if (ofInstances) for (const { one } of free) await deleteOnPlatform(env, instanceOf(one));
    for (let at = 0; at < free.length; at += UPDATES) {
      const updates = free.slice(at, at + UPDATES).map(({ one, now }) => updateRow(tenantId, table, one, now));
      await atomically(env.DB, table.table === "millrace_actions" ? auditOpened(updates) : updates);
    }
  }
  return { changed: free.length, waiting: meant.length - free.length, next: last ? JSON.stringify(until) : null };
}

/** Updates a row only if it is unchanged since it was read. A row changed meanwhile is handled in the next scan. */
function updateRow(
  tenantId: string,
  { table, key, texts, order }: TextTable,
  one: Record<string, unknown>,
  now: Record<string, unknown>,
): Statement {
  const values: SqlValue[] = [];
  const bound = (value: unknown) => `?${values.push(value as SqlValue)}`;
  const set = texts.map((column) => `${column} = ${bound(now[column])}`).join();
  const where = [...new Set([...key, ...texts])].map((column) => `${column} IS ${bound(one[column])}`);
  if (order !== "instance") where.push(`tenant_id = ${bound(tenantId)}`);
  return statement(["UPDATE OR REPLACE", table, "SET", set, "WHERE", where.join(" AND ")], values);
}

/**
 * Rewrites the strings of archived instances, one object per call. `from` is the name of the last object; "" at the beginning. An object
 * that the keeper is writing waits, because it may contain rows that were read before their rewriting.
 */
async function rewriteArchived(
  env: EngineEnv,
  { tenantId, tables, by, from, apply }: { tenantId: string; tables: readonly TextTable[]; by: Rewriter; from: string; apply: boolean },
): Promise<Rewritten> {
  const waiting = from === "" ? (await query(env.DB, selectArchiving(tenantId))).length : 0;
  const listed = await env.PAYLOADS.list({ prefix: folderOf(tenantId), limit: 1, ...(from !== "" && { startAfter: from }) });
  const name = listed.objects[0]?.key;
  if (name === undefined) return { changed: 0, waiting, next: null };
  const next = listed.truncated ? name : null;
  const object = await membersOf(env.PAYLOADS, name);
  let changed = 0;
  const members = [];
  for (const member of object?.members ?? []) {
    const rows = await rowsOf(member);
    const rewritten = rewriteRun(rows, tables, by);
    changed += rewritten.changed;
    if (apply && rewritten.changed > 0) for (const one of rows.millrace_instances) await deleteOnPlatform(env, runOf(one));
    members.push(rewritten.changed === 0 ? member : await memberOf(member.id, rewritten.rows));
  }
  const isWritten = changed === 0 || !apply || (await putMembers(env.PAYLOADS, name, members, object?.etag));
  return { changed, waiting, next: isWritten ? next : from };
}

/** Rewrites the strings of one archived instance, by the tables whose strings an erasure rewrites. */
function rewriteRun(rows: ArchivedRows, tables: readonly TextTable[], by: Rewriter): { rows: ArchivedRows; changed: number } {
  const { message_type } = rows.millrace_instances[0] ?? {};
  let changed = 0;
  const rewritten = Object.entries(rows).map(([table, own]) => {
    const texts = tables.find((one) => one.table === table)?.texts ?? [];
    const changedRows = own.map((row) => {
      const said = texts.flatMap((column) => (typeof row[column] === "string" ? [[column, row[column]] as const] : []));
      const all = said.map(([, text]) => text.toLowerCase());
      if (!by.mentions.some((mention) => all.some((text) => text.includes(mention)))) return row;
      const now = said.map(([column, text]) => [column, by.rewrite(column, text, { message_type, ...row })] as const);
      if (now.every(([column, text]) => text === row[column])) return row;
      changed++;
      return { ...row, ...Object.fromEntries(now) };
    });
    return [table as ArchivedTable, changedRows];
  });
  return { rows: Object.fromEntries(rewritten) as ArchivedRows, changed };
}

/** The number of a tenant's unconfirmed messages that contain at least one of the strings. */
export async function unsentSaying(env: EngineEnv, tenantId: string, mentions: readonly string[]): Promise<number> {
  const said = "EXISTS (SELECT 1 FROM json_each(?2) m WHERE instr(lower(body), m.value) > 0)";
  const count = statement(
    ["SELECT count(*) AS count FROM millrace_outbox WHERE body->>'tenant_id' = ?1 AND", said],
    [tenantId, JSON.stringify(mentions)],
  );
  const [row] = await query(env.DB, count);
  return Number(row?.count ?? 0);
}

function instanceOf({ of_instance: id, of_workflow: workflow, of_undo: undo }: Record<string, unknown>): PlatformInstance {
  return runOf({ id, workflow, undo });
}

function statement(words: readonly string[], params: readonly SqlValue[]): Statement {
  return { text: words.join(" "), params };
}
