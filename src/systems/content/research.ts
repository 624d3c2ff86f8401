import { notRetryable, now, query, type Statement, sql } from "millrace";
import type { SearchResult } from "../../providers/index.ts";
import { keywordKey } from "../brand/keyword.ts";

/** The research of a keyword. */
export interface Research {
  id: string;
  tenantId: string;
  brand: string;
  keyword: string;
  sources: SearchResult[];
}

export function insertResearch(research: Research): Statement {
  return sql`
    INSERT INTO research (id, tenant_id, brand, keyword, sources, researched_at)
    VALUES (${research.id}, ${research.tenantId}, ${research.brand}, ${research.keyword}, ${JSON.stringify(research.sources)}, ${now})`;
}

/** A tenant's research. Throws if it is missing: it was stored before it was announced. */
export async function loadResearch(db: D1Database, tenantId: string, id: string): Promise<Research> {
  const row = await db
    .prepare("SELECT * FROM research WHERE id = ?1 AND tenant_id = ?2")
    .bind(id, tenantId)
    .first<Record<string, string>>();
  if (!row) throw new Error(`There is no research ${id}.`);
  return { id, tenantId, brand: String(row.brand), keyword: String(row.keyword), sources: JSON.parse(String(row.sources)) };
}

/** Checks that research to reuse exists, and is about this brand and keyword. Errors: `not_retryable`. */
export async function assertReusable(db: D1Database, { id, tenantId, brand, keyword }: Omit<Research, "sources">): Promise<void> {
  const [found] = await query<{ brand: string; keyword: string }>(
    db,
    sql`SELECT brand, keyword FROM research WHERE id = ${id} AND tenant_id = ${tenantId}`,
  );
  if (found?.brand === brand && keywordKey(found.keyword) === keywordKey(keyword)) return;
  const what = found ? `is about “${found.keyword}” of ${found.brand}` : "does not exist";
  throw notRetryable(`The research ${id} ${what}: leave \`reuse\` out to have “${keyword}” of ${brand} researched.`);
}
