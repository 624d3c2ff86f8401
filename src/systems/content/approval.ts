import type { Steps } from "millrace";
import type { BrandSettings } from "../brand/settings.ts";
import { type ArticleKey, loadPublishable } from "./articles.ts";
import { cut } from "./cut.ts";
import { excerpt } from "./excerpt.ts";
import { wordCount } from "./word-count.ts";

/** Maximum length of a title in a question, which has room for 500 characters. */
const TITLE = { characters: 200, bytes: 400 };

/**
 * Creates the question before an article's publication, with context. The result is null if the brand requires no approval. The result is
 * also null for a published article, which was approved before and has been edited only by operators since.
 */
export async function publishQuestion(
  db: D1Database,
  settings: BrandSettings,
  { brand, ...key }: ArticleKey & { brand: string },
): Promise<Parameters<Steps["approve"]>[1] | null> {
  if (settings.approval === "none") return null;
  const { id, keyword, title, body, status } = await loadPublishable(db, { brand, ...key });
  if (status === "published") return null;
  return {
    question: `Publish “${cut(title, TITLE)}” on ${brand}?`,
    details: { content_id: id, title: cut(title, TITLE), keyword, excerpt: excerpt(body), words: wordCount(body) },
    timeout: settings.approval_timeout,
    otherwise: settings.approval_default,
  };
}
