import { query, sql } from "millrace";
import { keysetPage, type Page, type PageRequest } from "millrace/operate";

/** A published article in an index or a feed. */
export interface LiveArticle {
  id: string;
  title: string;
  /** Its summary in one or two sentences; empty if there is none. */
  description: string;
  /** The beginning of its Markdown, enough for an excerpt. */
  beginning: string;
  url: string;
  /** In milliseconds. */
  publishedAt: number;
}

/** A brand and its tenant. */
export interface BrandKey {
  tenantId: string;
  brand: string;
}

const BEGINNING_CHARACTERS = 4000;

/** A brand's published articles, newest first. Null for a brand that never published, so that its existence is not revealed. */
export async function liveArticles(db: D1Database, key: BrandKey, request: PageRequest): Promise<Page<LiveArticle> | null> {
  const { tenantId, brand } = key;
  const found = await keysetPage<LiveArticle>(
    request,
    ({ publishedAt, id }) => ({ at: publishedAt, id }),
    (before, limit) =>
      query<LiveArticle>(
        db,
        sql`
          SELECT id, title, description, substr(body, 1, ${BEGINNING_CHARACTERS}) AS beginning, url, published_at AS publishedAt
          FROM articles
          WHERE tenant_id = ${tenantId} AND brand = ${brand} AND status = 'published' AND (published_at, id) < (${before.at}, ${before.id})
          ORDER BY published_at DESC, id DESC LIMIT ${limit}`,
      ),
  );
  return found.items.length > 0 || (await everPublished(db, key)) ? found : null;
}

/** True if a brand has, or once had, a published article. */
export async function everPublished(db: D1Database, { tenantId, brand }: BrandKey): Promise<boolean> {
  const [row] = await query(
    db,
    sql`
      SELECT 1 FROM articles
      WHERE tenant_id = ${tenantId} AND brand = ${brand} AND status IN ('published', 'unpublished') LIMIT 1`,
  );
  return row !== undefined;
}
