import { query, sql } from "millrace";
import { keysetPage, type Page, type PageRequest } from "millrace/operate";

/** An article that is up, as an index or a feed shows it. */
export interface LiveArticle {
  id: string;
  title: string;
  /** What it says, in a sentence or two; empty for articles that came without. */
  description: string;
  /** The beginning of its Markdown, enough for an excerpt. */
  beginning: string;
  url: string;
  /** In milliseconds. */
  publishedAt: number;
}

/** A brand, and whose. */
export interface BrandKey {
  tenantId: string;
  brand: string;
}

const BEGINNING_CHARACTERS = 4000;

/** The articles of a brand that are up, newest first. Null for a brand that never published, whose existence is not revealed. */
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

/** Whether a brand has, or once had, something that people can read. */
export async function everPublished(db: D1Database, { tenantId, brand }: BrandKey): Promise<boolean> {
  const [row] = await query(
    db,
    sql`
      SELECT 1 FROM articles
      WHERE tenant_id = ${tenantId} AND brand = ${brand} AND status IN ('published', 'unpublished') LIMIT 1`,
  );
  return row !== undefined;
}
