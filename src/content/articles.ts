import slugify from "@sindresorhus/slugify";
import { now, type Statement, sql } from "../engine/index.ts";
import type { GeneratedText } from "../providers/index.ts";

/** An article, from draft to published page. */
export interface Article {
  id: string;
  tenantId: string;
  brand: string;
  keyword: string;
  slug: string;
  title: string;
  /** Markdown, without the title. */
  body: string;
  status: "draft" | "published" | "unpublished" | "rejected";
  /** Counts what became of it: 1 is the draft. */
  revision: number;
  /** Where people read it; null before it was published. */
  url: string | null;
}

/** An article from what a model wrote: its first heading is the title, the rest the body. */
export function draftArticle(id: string, tenantId: string, brand: string, keyword: string, written: GeneratedText): Article {
  const [, title = keyword, body = written.text] = /^\s*#\s+(.+?)\s*\n([\s\S]*)$/.exec(written.text) ?? [];
  // The id's first digits keep two articles about one keyword apart.
  return {
    id,
    tenantId,
    brand,
    keyword,
    slug: `${slugify(keyword) || "article"}-${id.slice(0, 6)}`,
    title,
    body: body.trim(),
    status: "draft",
    revision: 1,
    url: null,
  };
}

export function insertDraft(article: Article, written: GeneratedText): Statement {
  return sql`
    INSERT INTO articles (id, tenant_id, brand, keyword, slug, title, body, model, input_tokens, output_tokens, status, created_at)
    VALUES (${article.id}, ${article.tenantId}, ${article.brand}, ${article.keyword}, ${article.slug}, ${article.title}, ${article.body},
      ${written.model}, ${written.usage.inputTokens}, ${written.usage.outputTokens}, 'draft', ${now})`;
}

export function markPublished({ id, tenantId, revision }: Article, url: string): Statement {
  return sql`
    UPDATE articles SET status = 'published', revision = ${revision + 1}, url = ${url}, published_at = ${now}
    WHERE id = ${id} AND tenant_id = ${tenantId}`;
}

export function markAnnounced(id: string, postUri: string): Statement {
  return sql`UPDATE articles SET post_uri = ${postUri} WHERE id = ${id}`;
}

/** The article a tenant owns under this id. Throws when it is missing: whoever announced it stored it first. */
export async function loadArticle(db: D1Database, tenantId: string, id: string): Promise<Article> {
  const row = await db
    .prepare("SELECT brand, keyword, slug, title, body, status, revision, url FROM articles WHERE id = ?1 AND tenant_id = ?2")
    .bind(id, tenantId)
    .first<Omit<Article, "id" | "tenantId">>();
  if (!row) throw new Error(`There is no article ${id}.`);
  return { id, tenantId, ...row };
}

/** Where an article's page lives below the page store's root. */
export function pagePath({ brand, slug }: Pick<Article, "brand" | "slug">): string {
  return `${brand}/${slug}`;
}
