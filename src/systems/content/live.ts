import { query, type Statement, sql } from "millrace";
import { keysetPage, type Page, type PageRequest } from "millrace/operate";
import { MAIN } from "../../messages/targets.ts";

/** A published article in an index or a feed. */
export interface LiveArticle {
  id: string;
  title: string;
  /** The article's summary in one or two sentences; empty if there is none. */
  description: string;
  /** The beginning of the article's Markdown, enough for an excerpt. */
  beginning: string;
  url: string;
  /** The time of the first publication in milliseconds. */
  publishedAt: number;
}

/** The key of a brand: its tenant and its name. */
export interface BrandKey {
  tenantId: string;
  brand: string;
}

const BEGINNING_CHARACTERS = 4000;

/**
 * Lists the published articles of a brand, or of one of its further sites, newest first. The result is null if no article was ever
 * published on the site, so that the site's existence is not revealed.
 */
export async function liveArticles(
  db: D1Database,
  key: BrandKey & { site: string },
  request: PageRequest,
): Promise<Page<LiveArticle> | null> {
  const found = await keysetPage<LiveArticle>(
    request,
    ({ publishedAt, id }) => ({ at: publishedAt, id }),
    (before, limit) => query<LiveArticle>(db, key.site === MAIN ? ofBrand(key, before, limit) : ofSite(key, before, limit)),
  );
  return found.items.length > 0 || (await everPublished(db, key)) ? found : null;
}

/** The last article of the previous page of a list; the next page begins after this article. */
type Before = { at: number; id: string };

/** Selects published articles of a brand, each with the URL of its page on the article's first site. */
function ofBrand({ tenantId, brand }: BrandKey, before: Before, limit: number): Statement {
  return sql`
    SELECT id, title, description, substr(body, 1, ${BEGINNING_CHARACTERS}) AS beginning, url, published_at AS publishedAt
    FROM articles
    WHERE tenant_id = ${tenantId} AND brand = ${brand} AND status = 'published' AND (published_at, id) < (${before.at}, ${before.id})
    ORDER BY published_at DESC, id DESC LIMIT ${limit}`;
}

function ofSite({ tenantId, brand, site }: BrandKey & { site: string }, before: Before, limit: number): Statement {
  return sql`
    SELECT id, title, description, substr(body, 1, ${BEGINNING_CHARACTERS}) AS beginning, p.url AS url, p.published_at AS publishedAt
    FROM article_pages p JOIN articles ON id = p.content_id
    WHERE p.tenant_id = ${tenantId} AND p.brand = ${brand} AND p.site = ${site} AND p.status = 'published'
      AND (p.published_at, p.content_id) < (${before.at}, ${before.id})
    ORDER BY p.published_at DESC, p.content_id DESC LIMIT ${limit}`;
}

/** True if a brand, or one of its further sites, has or once had a published article. */
export async function everPublished(db: D1Database, { tenantId, brand, site = MAIN }: BrandKey & { site?: string }): Promise<boolean> {
  const statement =
    site === MAIN
      ? sql`
          SELECT 1 FROM articles
          WHERE tenant_id = ${tenantId} AND brand = ${brand} AND status IN ('published', 'unpublished') LIMIT 1`
      : sql`SELECT 1 FROM article_pages WHERE tenant_id = ${tenantId} AND brand = ${brand} AND site = ${site} LIMIT 1`;
  return (await query(db, statement)).length > 0;
}
