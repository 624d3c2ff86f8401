import { namedBatch, type Statement, sql } from "millrace";
import type { FactType } from "../../messages/fact.ts";

/** A fact in the projection; times in milliseconds. */
export interface FactRow {
  entity: string;
  sequence: number;
  fact_id: string;
  type: FactType;
  subtype: string | null;
  occurred_at: number;
  recorded_at: number;
  projected_at: number;
  trace_id: string;
  correlation_id: string;
  causation_id: string;
  /** JSON. */
  payload: string;
}

export interface FactFilter {
  entity?: string | undefined;
  type?: FactType | undefined;
  trace?: string | undefined;
  correlation?: string | undefined;
  /** If set, only facts that were recorded before this time, in milliseconds, are listed. */
  before?: number | undefined;
}

/** The row after which a page starts. */
type Position = Pick<FactRow, "recorded_at" | "entity" | "sequence">;

/**
 * Maximum number of rows that one page scans for a type, a trace or a job. For a rare value the page is short, but the request does not
 * scan the whole projection.
 */
const SCANNED_ROWS = 5000;

const TOP: Position = { recorded_at: Number.MAX_SAFE_INTEGER, entity: "", sequence: 0 };
/** The rows of one entity are ordered by position, which is part of the key. Rows of several entities are ordered by recording time. */
const BY_PLACE = sql.fragment("sequence DESC");
const BY_TIME = sql.fragment("recorded_at DESC, entity DESC, sequence DESC");

/** A page of the tenant's facts, newest first. A short or empty page may have a next page. Errors: those of D1. */
export async function listFacts(
  db: D1Database,
  tenantId: string,
  filter: FactFilter,
  { cursor, limit }: { cursor?: string | undefined; limit: number },
): Promise<{ items: FactRow[]; next: string | null }> {
  const from = sql`FROM facts WHERE tenant_id = ${tenantId} ${ofEntity(filter)} ${behind(filter, readCursor(cursor) ?? TOP)}`;
  const order = filter.entity === undefined ? BY_TIME : BY_PLACE;
  const picked = picks(filter);
  const looked = picked === undefined ? limit + 1 : SCANNED_ROWS;
  const { found, ends } = await namedBatch(db, {
    found: sql`
      SELECT entity, sequence, fact_id, type, subtype, occurred_at, recorded_at, projected_at,
        trace_id, correlation_id, causation_id, payload
      FROM (SELECT * ${from} ORDER BY ${order} LIMIT ${looked}) ${picked ?? sql``} ORDER BY ${order} LIMIT ${limit + 1}`,
    // The last scanned row, after which the next page continues if this page is not full.
    ends:
      picked === undefined ? [] : sql`SELECT recorded_at, entity, sequence ${from} ORDER BY ${order} LIMIT 1 OFFSET ${SCANNED_ROWS - 1}`,
  });
  const items = (found as unknown as FactRow[]).slice(0, limit);
  const end = found.length > limit ? items.at(-1) : (ends[0] as unknown as Position | undefined);
  return { items, next: end ? writeCursor(end) : null };
}

function ofEntity({ entity }: FactFilter): Statement {
  return entity === undefined ? sql`` : sql`AND entity = ${entity}`;
}

/** Returns the conditions on the scanned rows; undefined if the filter matches all rows. */
function picks({ entity, type, trace, correlation, before }: FactFilter): Statement | undefined {
  const wanted = { type, trace_id: trace, correlation_id: correlation };
  const conditions = Object.entries(wanted).flatMap(([column, value]) =>
    value === undefined ? [] : [sql`AND ${sql.fragment(column)} = ${value}`],
  );
  if (entity !== undefined && before !== undefined) conditions.push(sql`AND recorded_at < ${before}`);
  return conditions.length === 0 ? undefined : conditions.reduce((all, one) => sql`${all} ${one}`, sql`WHERE true`);
}

/** Returns the condition for the start of the scan, which is after the last row of the previous page or at the requested time. */
function behind({ entity, before }: FactFilter, at: Position): Statement {
  if (entity !== undefined) return at === TOP ? sql`` : sql`AND sequence < ${at.sequence}`;
  const from = before !== undefined && before < at.recorded_at ? { recorded_at: before, entity: "", sequence: 0 } : at;
  return sql`AND (recorded_at, entity, sequence) < (${from.recorded_at}, ${from.entity}, ${from.sequence})`;
}

function writeCursor({ recorded_at, entity, sequence }: Position): string {
  return Buffer.from(JSON.stringify([recorded_at, entity, sequence])).toString("base64url");
}

/** Returns the position in a cursor; undefined for a text that `writeCursor` has not written. */
export function readCursor(cursor: string | undefined): Position | undefined {
  if (cursor === undefined) return undefined;
  try {
    const [recorded_at, entity, sequence] = JSON.parse(Buffer.from(cursor, "base64url").toString());
    const place = { recorded_at, entity, sequence };
    const isPlace = typeof entity === "string" && entity !== "" && isCount(recorded_at) && isCount(sequence);
    // Base64 decoding accepts several texts for one position. A cursor is valid only if encoding the position gives the same text.
    return isPlace && writeCursor(place) === cursor ? place : undefined;
  } catch {
    return undefined;
  }
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) > 0;
}
