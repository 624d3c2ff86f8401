import { env } from "cloudflare:workers";
import { atomically, type Duration, ids } from "millrace";
import { expect } from "vitest";
import { type BrandSettings, DEFAULT_SETTINGS, putSettings } from "../../../src/systems/brand/settings.ts";
import { type Article, draftArticle, insertDraft } from "../../../src/systems/content/articles.ts";
import { type Caller, fresh, type Json, reaches, until } from "../../api/client.ts";
import { hexId } from "../../api/seed.ts";

/** A stored draft from a writer. */
export async function draft(
  caller: Caller,
  {
    brand = "acme",
    keyword = "green tea",
    text = "# Green tea\n\nIt is a plant.",
  }: { brand?: string; keyword?: string; text?: string } = {},
): Promise<Article> {
  const [, title = keyword, body = text] = /^# (.+)\n\n([\s\S]*)$/.exec(text) ?? [];
  const article = draftArticle(hexId(), caller.tenantId, brand, keyword, { title, description: "", body });
  const paid = { id: "answer-1", model: "test", finish: "stop", usage: { input: 12, output: 34, cached: 0, reasoning: 0 } };
  await atomically(env.DB, [insertDraft(article, { prompt: "article.v2" }, [paid])]);
  return article;
}

/** Requests an article's publication, as the chain does once the article is written. Returns the instance's id. */
export async function askToPublish(caller: Caller, { id, brand }: Article): Promise<string> {
  const { status, body } = await caller.post("/v1/commands", { type: "content.publish", payload: { content_id: id, brand } });
  expect({ status, body }).toMatchObject({ status: 202 });
  expect(body.instance_id).toBe(ids.instance(caller.tenantId, "publish-article", id));
  return body.instance_id;
}

/** Publishes a draft and returns the article as the API shows it. */
export async function publish(caller: Caller, article: Article): Promise<Json> {
  await reaches(caller, await askToPublish(caller, article), "complete");
  return (await caller.get(`/v1/articles/${article.id}`)).body;
}

/** Articles that were published a day apart, as rows: the first is the oldest. */
export async function publishedDaily(tenantId: string, brand: string, count: number, status = "published"): Promise<void> {
  const first = Date.parse("2026-01-01T00:00:00Z");
  const insert = env.DB.prepare(
    `INSERT INTO articles (id, tenant_id, brand, keyword, slug, title, body, model, input_tokens, output_tokens, status, revision, url, created_at, published_at)
     VALUES (?1, ?2, ?3, 'k', ?1, ?4, 'Text.', 'test', 1, 1, ?6, 2, 'https://shop.example.com/' || ?1, ?5, ?5)`,
  );
  await env.DB.batch(
    Array.from({ length: count }, (_, day) =>
      insert.bind(fresh("article"), tenantId, brand, `Day ${day + 1}`, first + day * 86_400_000, status),
    ),
  );
}

/** The article, once it has this status. */
export async function becomes(caller: Caller, { id }: { id: string }, status: string): Promise<Json> {
  const { body } = await until(
    () => caller.get(`/v1/articles/${id}`),
    ({ body }) => body.status === status,
  );
  expect(body).toMatchObject({ status });
  return body;
}

/** A brand with approval. */
export function wantsApproval(caller: Caller, brand: string, timeout: Duration = "3 days", otherwise: "approve" | "reject" = "reject") {
  return put(caller, brand, { approval: "required", approval_timeout: timeout, approval_default: otherwise });
}

/** A brand without approval. */
export function noApproval(caller: Caller, brand: string) {
  return put(caller, brand, { approval: "none" });
}

function put({ tenantId }: Caller, brand: string, settings: Partial<BrandSettings>) {
  return putSettings(env.DB, { tenantId, actor: "ada" }, brand, { ...DEFAULT_SETTINGS, ...settings });
}

/** The path of a URL, as a visitor's browser requests it. */
export function pathOf(url: string): string {
  const { pathname, search } = new URL(url);
  return pathname + search;
}
