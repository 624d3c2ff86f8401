import slugify from "@sindresorhus/slugify";
import { notRetryable, now, query, type Statement, sql } from "millrace";
import type { WrittenArticle } from "./article-answer.ts";
import type { Paid } from "./text-calls.ts";

/** An article, from draft to published page. */
export interface Article {
  id: string;
  tenantId: string;
  brand: string;
  keyword: string;
  slug: string;
  title: string;
  /** What it says in a sentence or two; empty when nobody wrote that. */
  description: string;
  /** Markdown, without the title. */
  body: string;
  status: "draft" | "published" | "unpublished" | "rejected";
  /** Counts what became of it: 1 is the draft. */
  revision: number;
  /** Where people read it, or last did; null before it was published. */
  url: string | null;
  /** The store that has its page while it is up; null before and after, and for one that was put up before this was kept. */
  store: string | null;
  /** When it was first published, in milliseconds: publishing it again makes it no newer. Null before that. */
  publishedAt: number | null;
}

/** Names an article of a tenant. */
export type ArticleKey = Pick<Article, "tenantId" | "id">;

/** An article's slug is made from its keyword, as far as that is bearable in an address. */
const SLUG_CHARACTERS = 80;

/** A draft of what a model wrote. */
export function draftArticle(id: string, tenantId: string, brand: string, keyword: string, written: WrittenArticle): Article {
  const words = slugify(keyword).slice(0, SLUG_CHARACTERS).replace(/-+$/, "");
  // The id's first digits keep two articles about one keyword apart.
  const slug = `${words || "article"}-${id.slice(0, 6)}`;
  return { id, tenantId, brand, keyword, slug, ...written, status: "draft", revision: 1, url: null, store: null, publishedAt: null };
}

/**
 * Stores a draft with the prompt it was written from, and what it cost: the tokens of all answers that were paid for it, as far as they are
 * known.
 */
export function insertDraft(article: Article, prompt: string, paid: readonly Paid[]): Statement {
  const tokens = (kind: "input" | "output") => paid.reduce((sum, { usage }) => sum + (usage[kind] ?? 0), 0);
  return sql`
    INSERT INTO articles (id, tenant_id, brand, keyword, slug, title, description, body, prompt,
      model, input_tokens, output_tokens, status, created_at)
    VALUES (${article.id}, ${article.tenantId}, ${article.brand}, ${article.keyword},
      ${article.slug}, ${article.title}, ${article.description},
      ${article.body}, ${prompt}, ${paid.at(-1)?.model ?? ""}, ${tokens("input")}, ${tokens("output")}, 'draft', ${now})`;
}

/** What becomes of an article, in the words of the events that say so. */
export interface ArticleChange {
  tenant_id: string;
  content_id: string;
  brand: string;
  keyword: string;
  /** The article's own from then on. */
  revision: number;
}

/** An article's next change. */
export function nextChange({ tenantId, id, brand, keyword, revision }: Article): ArticleChange {
  return { tenant_id: tenantId, content_id: id, brand, keyword, revision: revision + 1 };
}

/**
 * The page is up. The time of its first publication is kept. Of an article that was rejected since it was read nothing is written, nor what
 * is written with this: the column refuses NULL.
 */
export function markPublished({ tenant_id, content_id, revision, url, store }: ArticleChange & { url: string; store: string }): Statement {
  return sql`
    UPDATE articles SET status = iif(status = 'rejected', NULL, 'published'), revision = ${revision}, url = ${url}, store = ${store},
      published_at = coalesce(published_at, ${now})
    WHERE id = ${content_id} AND tenant_id = ${tenant_id}`;
}

/** The page is down. Its address is kept: people have it. */
export function markUnpublished({ tenant_id, content_id, revision }: ArticleChange): Statement {
  return sql`
    UPDATE articles SET status = 'unpublished', revision = ${revision}, store = NULL WHERE id = ${content_id} AND tenant_id = ${tenant_id}`;
}

/**
 * Somebody said no, or nobody said yes, to a draft. Of one that was published since it was read nothing is written, nor what is written
 * with this: the column refuses NULL.
 */
export function markRejected({ tenant_id, content_id, revision }: ArticleChange): Statement {
  return sql`
    UPDATE articles SET status = iif(status = 'draft', 'rejected', NULL), revision = ${revision}
    WHERE id = ${content_id} AND tenant_id = ${tenant_id}`;
}

/** Changes nothing, and one row if the article is still as it was read: what the audit of an action about it goes by. */
export function stillIs({ tenantId, id, revision }: ArticleKey & Pick<Article, "revision">): Statement {
  return sql`UPDATE articles SET revision = revision WHERE id = ${id} AND tenant_id = ${tenantId} AND revision = ${revision}`;
}

export function markAnnounced({ tenantId, id }: ArticleKey, postUri: string): Statement {
  return sql`UPDATE articles SET post_uri = ${postUri} WHERE id = ${id} AND tenant_id = ${tenantId}`;
}

/** The article a tenant owns under this id. Throws when it is missing: whoever announced it stored it first. */
export async function loadArticle(db: D1Database, { tenantId, id }: ArticleKey): Promise<Article> {
  const [row] = await query<Omit<Article, "id" | "tenantId">>(
    db,
    sql`
      SELECT brand, keyword, slug, title, description, body, status, revision, url, store, published_at AS publishedAt
      FROM articles WHERE id = ${id} AND tenant_id = ${tenantId}`,
  );
  if (!row) throw new Error(`There is no article ${id}.`);
  return { id, tenantId, ...row };
}

/**
 * The same, if the article is this brand's. Errors: `not_retryable`. Whoever names another brand would have the article published by that
 * one's rules: without asking anybody, where its own brand wants a person's yes.
 */
export async function loadArticleOf(db: D1Database, { brand, ...key }: ArticleKey & { brand: string }): Promise<Article> {
  const article = await loadArticle(db, key);
  if (article.brand === brand) return article;
  throw notRetryable(`The article ${key.id} is one of ${article.brand}, not of ${brand}: send content.publish with its own brand.`);
}

/** The same, if it may be published at all. Errors: `not_retryable` for one that was rejected. */
export async function loadPublishable(db: D1Database, key: ArticleKey & { brand: string }): Promise<Article> {
  const article = await loadArticleOf(db, key);
  assertPublishable(article);
  return article;
}

/** Errors: `not_retryable` for an article that was rejected. */
export function assertPublishable({ id, status, keyword }: Article): void {
  if (status !== "rejected") return;
  throw notRetryable(`The article ${id} was rejected, for good: have another one written about “${keyword}”.`);
}

/** Where an article's page lives below the page store's root. Two tenants may have a brand of one name: the tenant's comes first. */
export function pagePath({ tenantId, brand, slug }: Pick<Article, "tenantId" | "brand" | "slug">): string {
  return `${tenantId}/${brand}/${slug}`;
}
