import slugify from "@sindresorhus/slugify";
import { notRetryable, now, query, type Statement, sql } from "millrace";
import { MAIN } from "../../messages/targets.ts";
import { sitePath } from "./addresses.ts";
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
  /** Its summary in one or two sentences; empty if there is none. */
  description: string;
  /** Markdown, without the title. */
  body: string;
  status: "draft" | "published" | "unpublished" | "rejected";
  /** Counts its changes: 1 is the draft. */
  revision: number;
  /** The public URL of its page on the first site that has one, or the last one; null before its publication. */
  url: string | null;
  /** The store of that page while it is published; null before and after, and for pages from before this column. */
  store: string | null;
  /** Time of its first publication in milliseconds; later publications keep it. Null before. */
  publishedAt: number | null;
}

/** Names an article of a tenant. */
export type ArticleKey = Pick<Article, "tenantId" | "id">;

/** Longest slug, which is made from the article's keyword. */
const SLUG_CHARACTERS = 80;

/** A draft from a model's text. */
export function draftArticle(id: string, tenantId: string, brand: string, keyword: string, written: WrittenArticle): Article {
  const words = slugify(keyword).slice(0, SLUG_CHARACTERS).replace(/-+$/, "");
  // The id's first digits distinguish two articles about one keyword.
  const slug = `${words || "article"}-${id.slice(0, 6)}`;
  return { id, tenantId, brand, keyword, slug, ...written, status: "draft", revision: 1, url: null, store: null, publishedAt: null };
}

/** Stores a draft with its prompt and its cost: the known tokens of all answers that were paid for it. */
export function insertDraft(article: Article, prompt: string, paid: readonly Paid[]): Statement {
  const tokens = (kind: "input" | "output") => paid.reduce((sum, { usage }) => sum + (usage[kind] ?? 0), 0);
  return sql`
    INSERT INTO articles (id, tenant_id, brand, keyword, slug, title, description, body, prompt,
      model, input_tokens, output_tokens, status, created_at)
    VALUES (${article.id}, ${article.tenantId}, ${article.brand}, ${article.keyword},
      ${article.slug}, ${article.title}, ${article.description},
      ${article.body}, ${prompt}, ${paid.at(-1)?.model ?? ""}, ${tokens("input")}, ${tokens("output")}, 'draft', ${now})`;
}

/** A change of an article, as its events report it. */
export interface ArticleChange {
  tenant_id: string;
  content_id: string;
  brand: string;
  keyword: string;
  /** The article's revision after the change. */
  revision: number;
}

/** An article's next change. */
export function nextChange({ tenantId, id, brand, keyword, revision }: Article): ArticleChange {
  return { tenant_id: tenantId, content_id: id, brand, keyword, revision: revision + 1 };
}

/**
 * A draft was rejected, or its approval timed out. If the article was published since it was read, the whole commit fails, because the
 * column refuses NULL.
 */
export function markRejected({ tenant_id, content_id, revision }: ArticleChange): Statement {
  return sql`
    UPDATE articles SET status = iif(status = 'draft', 'rejected', NULL), revision = ${revision}
    WHERE id = ${content_id} AND tenant_id = ${tenant_id}`;
}

/** Changes nothing, and affects one row if the article is unchanged since it was read. The audit of an action depends on it. */
export function stillIs({ tenantId, id, revision }: ArticleKey & Pick<Article, "revision">): Statement {
  return sql`UPDATE articles SET revision = revision WHERE id = ${id} AND tenant_id = ${tenantId} AND revision = ${revision}`;
}

/** A tenant's article. Throws if it is missing: it was stored before it was announced. */
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
 * The same for an article of this brand. Errors: `not_retryable`. Without this check a command with another brand's name would bypass the
 * approval of the article's own brand.
 */
export async function loadArticleOf(db: D1Database, { brand, ...key }: ArticleKey & { brand: string }): Promise<Article> {
  const article = await loadArticle(db, key);
  if (article.brand === brand) return article;
  throw notRetryable(`The article ${key.id} is one of ${article.brand}, not of ${brand}: send content.publish with its own brand.`);
}

/** The same for an article that may be published. Errors: `not_retryable` for a rejected one. */
export async function loadPublishable(db: D1Database, key: ArticleKey & { brand: string }): Promise<Article> {
  const article = await loadArticleOf(db, key);
  assertPublishable(article);
  return article;
}

/** Errors: `not_retryable` for a rejected article. */
export function assertPublishable({ id, status, keyword }: Article): void {
  if (status !== "rejected") return;
  throw notRetryable(`The article ${id} was rejected, which is final: request another article about “${keyword}”.`);
}

/** The path of an article's page in a site's page store. */
export function pagePath({ tenantId, brand, slug }: Pick<Article, "tenantId" | "brand" | "slug">, site = MAIN): string {
  return `${sitePath({ tenantId, brand, site })}/${slug}`;
}
