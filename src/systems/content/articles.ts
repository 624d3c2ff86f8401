import slugify from "@sindresorhus/slugify";
import { notRetryable, query, type Statement, sql } from "millrace";
import { MAIN } from "../../messages/targets.ts";
import { sitePath } from "./addresses.ts";
import type { WrittenArticle } from "./article-answer.ts";
import type { Paid } from "./text-calls.ts";
import { wordCount } from "./word-count.ts";

/** An article, from draft to published page. */
export interface Article {
  id: string;
  tenantId: string;
  brand: string;
  keyword: string;
  slug: string;
  title: string;
  /** The article's summary in one or two sentences; empty if there is none. */
  description: string;
  /** The body of the article in Markdown, without the title. */
  body: string;
  /** The article's key points, from its research: short sentences. */
  keyPoints: string[];
  /** The number of words in the body; null for an article that was written before this column existed. */
  wordCount: number | null;
  /** The number of edits of the article's text. */
  edits: number;
  status: "draft" | "published" | "unpublished" | "rejected";
  /** The revision of the article: 1 is the draft, and each change adds 1. */
  revision: number;
  /**
   * The public URL of the article's page on the first of its published sites. After a removal the last URL remains; before the first
   * publication the value is null.
   */
  url: string | null;
  /**
   * The store of the article's page while it is published; null while the article is not published, and for a page that was published
   * before this column existed.
   */
  store: string | null;
  /** Time of the article's first publication in milliseconds; null before that. Later publications do not change this time. */
  publishedAt: number | null;
}

/** The key of an article: its tenant and its id. */
export type ArticleKey = Pick<Article, "tenantId" | "id">;

/** Maximum length of a slug, which is derived from the article's keyword. */
const SLUG_CHARACTERS = 80;

/** Creates a draft from a model's text and the key points of its research. */
export function draftArticle(
  id: string,
  tenantId: string,
  brand: string,
  keyword: string,
  written: WrittenArticle,
  keyPoints: string[] = [],
): Article {
  const words = slugify(keyword).slice(0, SLUG_CHARACTERS).replace(/-+$/, "");
  // The first six characters of the id distinguish the slugs of two articles about the same keyword.
  const slug = `${words || "article"}-${id.slice(0, 6)}`;
  const texts = { ...written, keyPoints, wordCount: wordCount(written.body), edits: 0 };
  return { id, tenantId, brand, keyword, slug, ...texts, status: "draft", revision: 1, url: null, store: null, publishedAt: null };
}

/** The origin of a draft: the prompt's id, the brand's template, and the research. */
export interface WrittenFrom {
  prompt: string;
  template?: string;
  researchId?: string;
}

/** Stores a draft with its origin and its cost: the known tokens of all answers that were paid for it. */
export function insertDraft(article: Article, { prompt, template, researchId }: WrittenFrom, paid: readonly Paid[]): Statement {
  const tokens = (kind: "input" | "output") => paid.reduce((sum, { usage }) => sum + (usage[kind] ?? 0), 0);
  return sql`
    INSERT INTO articles (id, tenant_id, brand, keyword, slug, title, description, body, key_points, word_count, prompt, template,
      research_id, model, input_tokens, output_tokens, status, created_at)
    VALUES (${article.id}, ${article.tenantId}, ${article.brand}, ${article.keyword},
      ${article.slug}, ${article.title}, ${article.description},
      ${article.body}, ${JSON.stringify(article.keyPoints)}, ${article.wordCount}, ${prompt}, ${template ?? null},
      ${researchId ?? null}, ${paid.at(-1)?.model ?? ""}, ${tokens("input")}, ${tokens("output")}, 'draft', ${sql.now})`;
}

/** A change of an article, with the fields that the article's events contain. */
export interface ArticleChange {
  tenant_id: string;
  content_id: string;
  brand: string;
  keyword: string;
  /** The article's revision after the change. */
  revision: number;
}

/** Returns the change that gives an article its next revision. */
export function nextChange({ tenantId, id, brand, keyword, revision }: Article): ArticleChange {
  return { tenant_id: tenantId, content_id: id, brand, keyword, revision: revision + 1 };
}

/** The texts of an article that an operator may change. */
export type ArticleEdit = Partial<Pick<Article, "title" | "description" | "body" | "keyPoints">>;

/**
 * Changes the text of an article that still has this revision and status, and increases the revision. If the article has changed since it
 * was read, the statement sets a NOT NULL column to NULL, so the whole commit fails.
 */
export function editText(
  { tenantId, id, revision, status }: ArticleKey & Pick<Article, "revision" | "status">,
  edit: ArticleEdit,
): Statement {
  const { title = null, description = null, body = null, keyPoints } = edit;
  return sql`
    UPDATE articles SET
      title = coalesce(${title}, title), description = coalesce(${description}, description), body = coalesce(${body}, body),
      key_points = coalesce(${keyPoints ? JSON.stringify(keyPoints) : null}, key_points),
      word_count = coalesce(${body === null ? null : wordCount(body)}, word_count),
      revision = iif(revision = ${revision} AND status = ${status}, revision + 1, NULL), edits = edits + 1
    WHERE id = ${id} AND tenant_id = ${tenantId}`;
}

/**
 * Records that a draft was rejected, or that the approval of the draft timed out. If the article was published or edited since it was read,
 * the statement sets a NOT NULL column to NULL, so the whole commit fails.
 */
export function markRejected({ tenant_id, content_id, revision }: ArticleChange): Statement {
  return sql`
    UPDATE articles SET status = iif(status = 'draft' AND revision = ${revision - 1}, 'rejected', NULL), revision = ${revision}
    WHERE id = ${content_id} AND tenant_id = ${tenant_id}`;
}

/**
 * Returns a statement that writes no new value, and affects one row if the article has not changed since the read. The audit of an
 * operator's action depends on this statement.
 */
export function stillIs({ tenantId, id, revision }: ArticleKey & Pick<Article, "revision">): Statement {
  return sql`UPDATE articles SET revision = revision WHERE id = ${id} AND tenant_id = ${tenantId} AND revision = ${revision}`;
}

/**
 * Reads a tenant's article. The function throws an error if the article is missing, because an article is always stored before its first
 * event is published.
 */
export async function loadArticle(db: D1Database, { tenantId, id }: ArticleKey): Promise<Article> {
  const [row] = await query<Omit<Article, "id" | "tenantId" | "keyPoints"> & { keyPoints: string }>(
    db,
    sql`
      SELECT brand, keyword, slug, title, description, body, key_points AS keyPoints, word_count AS wordCount, edits, status, revision,
        url, store, published_at AS publishedAt
      FROM articles WHERE id = ${id} AND tenant_id = ${tenantId}`,
  );
  if (!row) throw new Error(`There is no article ${id}.`);
  return { id, tenantId, ...row, keyPoints: JSON.parse(row.keyPoints) };
}

/**
 * Loads a tenant's article of this brand. Errors: `not_retryable` for an article of another brand. Without this check a command with
 * another brand's name would bypass the approval of the article's own brand.
 */
export async function loadArticleOf(db: D1Database, { brand, ...key }: ArticleKey & { brand: string }): Promise<Article> {
  const article = await loadArticle(db, key);
  if (article.brand === brand) return article;
  throw notRetryable(`The article ${key.id} is one of ${article.brand}, not of ${brand}: send content.publish with its own brand.`);
}

/** Loads an article that may be published. Errors: `not_retryable` for a rejected article. */
export async function loadPublishable(db: D1Database, key: ArticleKey & { brand: string }): Promise<Article> {
  const article = await loadArticleOf(db, key);
  assertPublishable(article);
  return article;
}

/** Refuses to publish a rejected article. Errors: `not_retryable`. */
export function assertPublishable({ id, status, keyword }: Article): void {
  if (status !== "rejected") return;
  throw notRetryable(`The article ${id} was rejected, which is final: request another article about “${keyword}”.`);
}

/** Returns the path of an article's page in a site's page store. */
export function pagePath({ tenantId, brand, slug }: Pick<Article, "tenantId" | "brand" | "slug">, site = MAIN): string {
  return `${sitePath({ tenantId, brand, site })}/${slug}`;
}
