import { atomically, MillraceError } from "millrace";
import { bodies, HttpRefusal } from "millrace/http";
import { auditLate, type Token } from "millrace/operate";
import * as z from "zod";
import { PAGE_HEADERS } from "../embedded/pages.ts";
import { ARTICLE_LIMITS } from "../systems/content/article-answer.ts";
import type { ArticleRow } from "../systems/content/article-rows.ts";
import { loadArticle } from "../systems/content/articles.ts";
import { editArticle } from "../systems/content/edit.ts";
import { pageOf } from "../systems/content/page.ts";
import { brandSite } from "../systems/content/sites.ts";
import { owned } from "./articles.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

/** Maximum size of a request. The limit has room for an article of 100,000 characters in any language, escaped as JSON. */
const MAX_BODY_BYTES = 1024 * 1024;

const { title, description, body, keyPoint, keyPoints } = ARTICLE_LIMITS;
const line = (max: number) => z.string().trim().max(max);

const editSchema = z.strictObject({
  title: line(title).min(1).optional(),
  description: line(description).optional().meta({ description: "The summary for search engines and posts; empty for none." }),
  body: line(body).min(1).optional().meta({ description: "The body of the article in Markdown, without the title." }),
  key_points: z.array(line(keyPoint).min(1)).max(keyPoints).optional(),
  revision: z.int().min(1).optional().meta({
    description:
      "The revision of the article that the edit is based on. The header `If-Match` with the revision in quotes is an alternative.",
  }),
  update: z.boolean().default(false).meta({
    description:
      "True also edits a published article, and puts its page again at the same URL. By default the edit of a published article is refused.",
  }),
  reason: z.string().trim().max(500).default("").meta({ description: "The caller's reason, which the audit records." }),
});

const EditedSchema = z.object({
  revision: z.int().meta({ description: "The new revision of the article." }),
  action_id: z.string(),
  instance_id: z.string().nullable().meta({ description: "The instance that puts the page again; null if the article is not published." }),
});

export const articleEdits = [
  operation("get", "/v1/articles/{id}/preview", "previewArticle", "articles preview", {
    summary: "Preview the page of an article",
    description:
      "Returns the page as its publication on the first site would make it now, in any status. The page runs no script (`Content-Security-Policy: sandbox`), and search engines must not index it.",
    answer: { 200: { description: "The page", content: { "text/html": { schema: z.string() } } } },
    problems: ["article_not_found"],
    async run({ env, by, param }) {
      const { id } = await owned(env, by, param.id);
      const article = await loadArticle(env.DB, { tenantId: by.tenantId, id });
      const { document } = pageOf(article, await brandSite(env.DB, article), env);
      return new Response(document, {
        headers: { ...PAGE_HEADERS, ...PREVIEW_HEADERS, "content-type": "text/html; charset=utf-8" },
      });
    },
  }),
  operation("patch", "/v1/articles/{id}", "editArticle", "articles edit", {
    summary: "Edit an article",
    description:
      "Changes the text of a draft or of an unpublished article; a pending approval then publishes the new text. With `update`, the edit also changes a published article: its pages are put again at the same URLs, on each site where it is published, without a new post. A rejected article cannot be edited.",
    headers: {
      "if-match": z.string().optional().meta({ description: "The revision of the article that the edit is based on.", example: '"1"' }),
    },
    body: editSchema,
    limits: { maxBytes: MAX_BODY_BYTES },
    answer: ["The edit", EditedSchema],
    problems: ["article_not_found", "invalid_transition", "revision_conflict"],
    async run({ env, by, catalog, param, body, context }) {
      const { revision: said, update, reason, key_points: keyPoints, ...texts } = body;
      const based = said ?? revisionIn(context.req.header("if-match"));
      if (based === undefined) throw bodies.invalid([{ path: "revision", message: "is missing: name the revision that you have read" }]);
      const change = { ...texts, ...(keyPoints && { keyPoints }) };
      if (Object.keys(change).length === 0)
        throw bodies.invalid([{ path: "", message: "changes nothing: pass title, description, body or key_points" }]);
      const article = await owned(env, by, param.id);
      if (article.revision !== based) throw changed(article, based);
      if (article.status === "rejected" || (article.status === "published" && !update)) throw await refused(env, by, article, reason);
      const edited = await editArticle(env, catalog, by, article, change, reason);
      if (!edited) throw changed(await owned(env, by, article.id), based);
      return { revision: edited.revision, action_id: edited.actionId, instance_id: edited.instanceId };
    },
  }),
];

/** Search engines must not list a draft. Caches store no response of the API. */
const PREVIEW_HEADERS = { "x-robots-tag": "noindex" };

/** Parses the revision in an `If-Match` header. */
function revisionIn(header: string | undefined): number | undefined {
  const [, revision] = /^\s*(?:W\/)?"(\d{1,9})"\s*$/.exec(header ?? "") ?? [];
  return revision === undefined ? undefined : Number(revision);
}

function changed({ revision, status }: ArticleRow, based: number): HttpRefusal {
  return new HttpRefusal(
    "revision_conflict",
    `The article is ${status} in revision ${revision}, and the edit is based on ${based}: read it again, then edit that revision.`,
  );
}

async function refused(env: ApiEnv["Bindings"], caller: Token, { id, status }: ArticleRow, reason: string): Promise<MillraceError> {
  const action = { id: crypto.randomUUID(), verb: "edit", target: id, instanceId: null, reason, detail: { status } };
  await atomically(env.DB, [auditLate(caller, action)]);
  const next = status === "published" ? "pass `update: true` to change its page too" : "have another one written";
  return new MillraceError("invalid_transition", `The article is ${status}: ${next}.`, { from: status, to: status, audited: true });
}
