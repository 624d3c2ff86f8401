import slugify from "@sindresorhus/slugify";
import { now, type Statement, sql } from "../engine/index.ts";
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
  /** Where people read it; null before it was published. */
  url: string | null;
}

/** A draft of what a model wrote. */
export function draftArticle(id: string, tenantId: string, brand: string, keyword: string, written: WrittenArticle): Article {
  // The id's first digits keep two articles about one keyword apart.
  const slug = `${slugify(keyword) || "article"}-${id.slice(0, 6)}`;
  return { id, tenantId, brand, keyword, slug, ...written, status: "draft", revision: 1, url: null };
}

/** Stores a draft with the prompt it was written from, and what it cost: the tokens of all answers that were paid for it, as far as they are known. */
export function insertDraft(article: Article, prompt: string, paid: readonly Paid[]): Statement {
  const tokens = (kind: "input" | "output") => paid.reduce((sum, { usage }) => sum + (usage[kind] ?? 0), 0);
  return sql`
    INSERT INTO articles (id, tenant_id, brand, keyword, slug, title, description, body, prompt, model, input_tokens, output_tokens, status, created_at)
    VALUES (${article.id}, ${article.tenantId}, ${article.brand}, ${article.keyword}, ${article.slug}, ${article.title}, ${article.description},
      ${article.body}, ${prompt}, ${paid.at(-1)?.model ?? ""}, ${tokens("input")}, ${tokens("output")}, 'draft', ${now})`;
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
    .prepare("SELECT brand, keyword, slug, title, description, body, status, revision, url FROM articles WHERE id = ?1 AND tenant_id = ?2")
    .bind(id, tenantId)
    .first<Omit<Article, "id" | "tenantId">>();
  if (!row) throw new Error(`There is no article ${id}.`);
  return { id, tenantId, ...row };
}

/** Where an article's page lives below the page store's root. */
export function pagePath({ brand, slug }: Pick<Article, "brand" | "slug">): string {
  return `${brand}/${slug}`;
}
