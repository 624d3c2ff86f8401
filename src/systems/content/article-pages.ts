import { query, type Statement, sql } from "millrace";
import { MAIN } from "../../messages/targets.ts";
import type { PagesKind } from "../../providers/index.ts";
import type { Article, ArticleChange, ArticleKey } from "./articles.ts";

/** A page of an article on one site. */
export interface ArticlePage {
  site: string;
  kind: PagesKind;
  status: "published" | "unpublished";
  /** The article's revision at the last change of the page. */
  revision: number;
  /** The URL of the page, which is kept after a removal. */
  url: string;
  store: string | null;
  /** The instance that last published the page; null for a page that was published before this column existed. */
  instanceId: string | null;
  /** The time of the page's first publication in milliseconds. */
  publishedAt: number;
}

/** A change of an article's page on one site. */
export type PageChange = ArticleChange & { site: string };

const COLUMNS = sql.fragment("site, kind, status, revision, url, store, instance_id AS instanceId, published_at AS publishedAt");

/** The fields of an article's row that describe the only page of an article from before the table of pages. */
type Row = Pick<Article, "id" | "status" | "revision" | "url" | "publishedAt"> & Partial<Pick<Article, "store">>;

/**
 * Lists the pages of an article, in the order of its brand's sites. A page that is older than the table of pages is in the article's row.
 */
export async function pagesOf(db: D1Database, tenantId: string, article: Row): Promise<ArticlePage[]> {
  const { id, status, revision, url, publishedAt, store = null } = article;
  const pages = await query<ArticlePage>(
    db,
    sql`SELECT ${COLUMNS} FROM article_pages WHERE tenant_id = ${tenantId} AND content_id = ${id} ORDER BY place, site`,
  );
  if (pages.length > 0 || url === null || publishedAt === null || status === "draft" || status === "rejected") return pages;
  return [{ site: MAIN, kind: "store", status, revision, url, store, instanceId: null, publishedAt }];
}

/** Returns the page of an article on a site; undefined if the article was never published on this site. */
export async function pageAt(db: D1Database, article: Article, site: string): Promise<ArticlePage | undefined> {
  return (await pagesOf(db, article.tenantId, article)).find((page) => page.site === site);
}

/** Selects the pages of an article that are published. */
function live(of: { tenant_id: string; content_id: string }): Statement {
  return sql`FROM article_pages WHERE tenant_id = ${of.tenant_id} AND content_id = ${of.content_id} AND status = 'published'`;
}

/**
 * Records that an article's page is published on a site. The time of the page's first publication does not change. The whole commit fails
 * if the article was rejected or edited since it was read. The whole commit also fails if a page to update was unpublished. Such a commit
 * fails because the statement sets a NOT NULL column to NULL.
 */
export function markPublished(
  live: PageChange & { url: string; store: string; kind: PagesKind; place: number; instanceId: string; edits?: number; update?: boolean },
): Statement[] {
  const { tenant_id, content_id, brand, site, kind, place, revision, url, store, instanceId, edits = 0, update = false } = live;
  return [
    ...(site === MAIN ? [] : [keepEarlier(live)]),
    sql`
      INSERT INTO article_pages (tenant_id, content_id, site, brand, kind, place, status, revision, url, store, instance_id,
        published_at, changed_at)
      VALUES (${tenant_id}, ${content_id}, ${site}, ${brand}, ${kind}, ${place}, 'published', ${revision}, ${url}, ${store}, ${instanceId},
        ${sql.now}, ${sql.now})
      ON CONFLICT (tenant_id, content_id, site) DO UPDATE SET kind = excluded.kind, place = excluded.place,
        status = iif(${Number(update)} AND status <> 'published', NULL, 'published'), revision = excluded.revision, url = excluded.url,
        store = excluded.store, instance_id = excluded.instance_id, changed_at = excluded.changed_at`,
    changed(live, sql`iif(status = 'rejected' OR edits <> ${edits}, NULL, 'published')`),
  ];
}

/**
 * Writes the row of a page that is older than the table of pages. Without this row, the first row of another site would hide the older
 * page.
 */
function keepEarlier({ tenant_id, content_id }: PageChange): Statement {
  return sql`
    INSERT INTO article_pages (tenant_id, content_id, site, brand, kind, place, status, revision, url, store, published_at, changed_at)
    SELECT tenant_id, id, ${MAIN}, brand, 'store', 0, status, revision, url, store, published_at, ${sql.now} FROM articles
    WHERE id = ${content_id} AND tenant_id = ${tenant_id} AND status IN ('published', 'unpublished') AND url IS NOT NULL
      AND published_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM article_pages WHERE tenant_id = ${tenant_id} AND content_id = ${content_id})`;
}

/**
 * Records that an article's page was removed from a site. The URL of the page is kept, because readers may have saved the URL. The article
 * remains published while another page of the article is published.
 */
export function markUnpublished(gone: PageChange): Statement[] {
  const { tenant_id, content_id, site, revision } = gone;
  return [
    // A page that is older than the table of pages has no row yet.
    sql`
      INSERT INTO article_pages (tenant_id, content_id, site, brand, kind, place, status, revision, url, published_at, changed_at)
      SELECT tenant_id, id, ${site}, brand, 'store', 0, 'unpublished', ${revision}, url, coalesce(published_at, ${sql.now}), ${sql.now} FROM articles
      WHERE id = ${content_id} AND tenant_id = ${tenant_id}
      ON CONFLICT (tenant_id, content_id, site) DO UPDATE SET status = excluded.status,
        revision = max(revision, excluded.revision), store = NULL, changed_at = excluded.changed_at`,
    changed(gone, sql`iif(EXISTS (SELECT 1 ${live(gone)}), 'published', 'unpublished')`),
  ];
}

/** Updates the article's row from the article's pages, after one of the pages has changed. */
function changed({ tenant_id, content_id, revision }: PageChange, status: Statement): Statement {
  const first = (column: Statement) => sql`(SELECT ${column} ${live({ tenant_id, content_id })} ORDER BY place, site LIMIT 1)`;
  return sql`
    UPDATE articles SET status = ${status}, revision = max(revision, ${revision}), url = coalesce(${first(sql`url`)}, url),
      store = ${first(sql`store`)}, published_at = coalesce(published_at, (SELECT min(published_at) ${live({ tenant_id, content_id })}))
    WHERE id = ${content_id} AND tenant_id = ${tenant_id}`;
}

/**
 * Returns a statement that writes no new value, and affects one row if the page has not changed since the read. The audit of an operator's
 * action depends on this statement.
 */
export function pageStillIs({ tenantId, id }: ArticleKey, { site, revision }: Pick<ArticlePage, "site" | "revision">): Statement {
  return sql`
    UPDATE article_pages SET revision = revision
    WHERE tenant_id = ${tenantId} AND content_id = ${id} AND site = ${site} AND revision = ${revision}`;
}
