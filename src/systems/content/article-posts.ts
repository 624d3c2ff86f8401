import { query, type Statement, sql } from "millrace";
import { MAIN, type Platform } from "../../messages/targets.ts";
import type { ArticleKey } from "./articles.ts";

/** A post about an article on one account. */
export interface ArticlePost {
  account: string;
  platform: Platform;
  /** The post's URI on the platform, and the URL of the post's public web page. */
  uri: string;
  url: string;
  /** The time of the post in milliseconds. */
  postedAt: number;
}

/** Lists the posts about an article. */
export function postsOf(db: D1Database, { tenantId, id }: ArticleKey): Promise<ArticlePost[]> {
  return query<ArticlePost>(
    db,
    sql`
      SELECT account, platform, uri, url, posted_at AS postedAt FROM article_posts
      WHERE tenant_id = ${tenantId} AND content_id = ${id} ORDER BY account`,
  );
}

/**
 * Records that the article was announced on an account. The article's row contains the post on the main account, or the first post if the
 * main account has none.
 */
export function markAnnounced({ tenantId, id }: ArticleKey, { account, platform, uri, url }: Omit<ArticlePost, "postedAt">): Statement[] {
  const uriOfRow = account === MAIN ? sql`${uri}` : sql`coalesce(post_uri, ${uri})`;
  return [
    sql`
      INSERT INTO article_posts (tenant_id, content_id, account, platform, uri, url, posted_at)
      VALUES (${tenantId}, ${id}, ${account}, ${platform}, ${uri}, ${url}, ${sql.now})
      ON CONFLICT (tenant_id, content_id, account) DO UPDATE SET platform = excluded.platform, uri = excluded.uri, url = excluded.url`,
    sql`UPDATE articles SET post_uri = ${uriOfRow} WHERE id = ${id} AND tenant_id = ${tenantId}`,
  ];
}
