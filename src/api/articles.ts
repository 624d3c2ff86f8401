import { atomically, codeOf, instanceId, MillraceError } from "millrace";
import {
  answers,
  BODY_REFUSALS,
  createRoute,
  HttpRefusal,
  iso,
  isoOrNull,
  jsonBody,
  needs,
  page,
  pageOf,
  pageQuery,
  Routes,
  readBody,
  reasoned,
  timestamp,
} from "millrace/http";
import { auditLate, effectsOf, getInstance, type Instance, listApprovals, retryInstance, type Token, undoInstance } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { type ArticleRow, findArticle, listArticles } from "../systems/content/article-rows.ts";
import { ask } from "../systems/content/ask.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const STATUSES = ["draft", "published", "unpublished", "rejected"] as const;

const ArticleSchema = z
  .object({
    id: z.string(),
    brand: z.string(),
    keyword: z.string(),
    title: z.string().meta({ description: "Text from a model: never show it as HTML." }),
    status: z.enum(STATUSES),
    revision: z.int().meta({ description: "Counts its changes: 1 is the draft." }),
    url: z.string().nullable().meta({ description: "The URL of its page, kept after its removal; null before its first publication." }),
    post_uri: z.string().nullable().meta({ description: "The post that announced it." }),
    model: z.string(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    created_at: timestamp,
    published_at: timestamp.nullable().meta({ description: "The first time." }),
  })
  .meta({ id: "Article" });

const instance = z.object({ id: z.string(), status: z.string() }).nullable();

const ArticleDetailSchema = ArticleSchema.extend({
  body: z.string().meta({ description: "Markdown from a model, without the title." }),
  approval_id: z.string().nullable().meta({ description: "The open question about it: answer it under /v1/approvals." }),
  instances: z
    .object({ generate: instance, publish: instance, social: instance })
    .meta({ description: "The instances of its steps; null before the start and after pruning." }),
}).meta({ id: "ArticleDetail" });

const id = z.object({ id: z.string() });

const list = createRoute({
  method: "get",
  path: "/v1/articles",
  operationId: "listArticles",
  summary: "List articles, newest first",
  description: "Returns the articles of your tenant with their state.",
  ...needs("read"),
  request: { query: z.strictObject({ brand: z.string().optional(), status: z.enum(STATUSES).optional(), ...pageQuery }) },
  responses: {
    200: answers("A page of articles", pageOf(ArticleSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/articles/{id}",
  operationId: "getArticle",
  summary: "Get an article",
  description: "Returns the text of the article, its open question and the instance that works on it.",
  ...needs("read"),
  request: { params: id },
  responses: { 200: answers("The article", ArticleDetailSchema), ...problems("unauthorized", "forbidden", "article_not_found") },
});

const unpublish = createRoute({
  method: "post",
  path: "/v1/articles/{id}/unpublish",
  operationId: "unpublishArticle",
  summary: "Unpublish an article",
  description:
    "Undoes the publish-article instance of the page. If that instance was pruned, a `content.unpublish` command removes the page. The entries in index and feed are removed too. Social posts about it remain.",
  ...needs("operate"),
  request: { params: id, body: jsonBody(reasoned) },
  responses: {
    202: answers("The page will be removed", z.object({ action_id: z.string(), instance_id: z.string() })),
    ...problems(...BODY_REFUSALS, "article_not_found", "invalid_transition"),
  },
});

const publish = createRoute({
  method: "post",
  path: "/v1/articles/{id}/publish",
  operationId: "publishArticle",
  summary: "Publish an article again",
  description:
    "Retries the failed or undone publish-article instance of the article. If the page was removed without it, a `content.publish` command publishes it. A new article is published by its chain of workflows or by the approval.",
  ...needs("operate"),
  request: { params: id, body: jsonBody(reasoned) },
  responses: {
    202: answers("The page will be published", z.object({ action_id: z.string(), instance_id: z.string() })),
    ...problems(...BODY_REFUSALS, "article_not_found", "instance_not_found", "invalid_transition"),
  },
});

export function articles(catalog: Catalog) {
  return new Routes<ApiEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) =>
      json(page(await listArticles(env.DB, caller.tenantId, req.valid("query")), articleView), 200),
    )
    .openapi(show, async ({ env, req, var: { caller }, json }) => {
      const article = await owned(env, caller, req.valid("param").id);
      const [generate, publish, social, { items: open }] = await Promise.all([
        statusOf(env, caller, article.id),
        statusOf(env, caller, publishInstance(caller, article.id)),
        // Its command has the same key.
        statusOf(env, caller, instanceId(caller.tenantId, "post-to-social", article.id)),
        listApprovals(env, caller, { instance: publishInstance(caller, article.id), state: "pending" }),
      ]);
      const instances = { generate, publish, social };
      return json({ ...articleView(article), body: article.body, approval_id: open[0]?.id ?? null, instances }, 200);
    })
    .openapi(unpublish, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      const article = await ownedAs(env, caller, req.valid("param").id, "unpublish", reason);
      const instance = await publisherOf(env, caller, article);
      // A failed undo is retried like any instance, and continues.
      const failed = instance?.undo !== null && instance?.status === "errored";
      if (!instance || !(failed || (await hasPutUp(env, caller, instance, article)))) {
        const asked = await ask(env, catalog, caller, "unpublish", article, reason);
        return json({ action_id: asked.actionId, instance_id: asked.instanceId }, 202);
      }
      const { actionId } = await (failed
        ? retryInstance(env, caller, instance.id, { reason })
        : undoInstance(env, caller, instance.id, reason));
      return json({ action_id: actionId, instance_id: instance.id }, 202);
    })
    .openapi(publish, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      const article = await ownedAs(env, caller, req.valid("param").id, "publish", reason);
      const instance = await publisherOf(env, caller, article);
      if (article.status === "unpublished" && (!instance || instance.status === "complete")) {
        const asked = await ask(env, catalog, caller, "publish", article, reason);
        return json({ action_id: asked.actionId, instance_id: asked.instanceId }, 202);
      }
      if (!instance) throw new MillraceError("instance_not_found", "This article has no publish-article instance: send content.publish.");
      const { actionId } = await retryInstance(env, caller, instance.id, { reason });
      return json({ action_id: actionId, instance_id: instance.id }, 202);
    });
}

/** The caller's article. Errors: `article_not_found`, also for another tenant's. */
async function owned({ DB }: ApiEnv["Bindings"], { tenantId }: Token, id: string) {
  const article = await findArticle(DB, tenantId, id);
  if (!article) throw new HttpRefusal("article_not_found", "There is no such article. List them with GET /v1/articles.");
  return article;
}

/** The statuses from which an article can change to each target. */
const MOVES = {
  publish: { from: ["draft", "unpublished"], to: "published" },
  unpublish: { from: ["published"], to: "unpublished" },
} as const;

/**
 * The article, if this change is possible. Errors: `article_not_found`; `invalid_transition`, which is audited: undoing a refusal would
 * change nothing, and retrying it would refuse again.
 */
async function ownedAs(env: ApiEnv["Bindings"], caller: Token, id: string, verb: keyof typeof MOVES, reason: string): Promise<ArticleRow> {
  const article = await owned(env, caller, id);
  const { status } = article;
  const { from, to } = MOVES[verb];
  if (from.some((one) => one === status)) return article;
  const action = { id: crypto.randomUUID(), verb, target: article.id, instanceId: null, reason, detail: { status } };
  await atomically(env.DB, [auditLate(caller, action)]);
  const said = `The article's status is ${status}: only from ${from.join(" or ")} can it become ${to}.`;
  throw new MillraceError("invalid_transition", said, { from: status, to, audited: true });
}

/** The chain's instance that publishes an article; undefined if there was none, or it is pruned. */
function publisherOf(env: ApiEnv["Bindings"], caller: Token, { id }: ArticleRow): Promise<Instance | undefined> {
  return getInstance(env, caller, publishInstance(caller, id)).catch((error) => {
    if (codeOf(error) !== "instance_not_found") throw error;
    return undefined;
  });
}

/** True if an instance published the present page. Its undo would not know a page that another instance published. */
async function hasPutUp(env: ApiEnv["Bindings"], caller: Token, { id }: Instance, { revision }: ArticleRow): Promise<boolean> {
  const effects = await effectsOf(env, caller, id);
  const put = effects.findLast(({ step, state, undo }) => step === "put page" && state === "done" && undo !== "undo_step");
  return JSON.parse(put?.output ?? "{}").revision === revision;
}

/** Named after the article, like its command's key. */
function publishInstance({ tenantId }: Token, articleId: string): string {
  return instanceId(tenantId, "publish-article", articleId);
}

/** An instance's id and status; null if there is none. */
async function statusOf(env: ApiEnv["Bindings"], caller: Token, id: string): Promise<z.infer<typeof instance>> {
  try {
    return { id, status: (await getInstance(env, caller, id)).status };
  } catch (error) {
    if (codeOf(error) === "instance_not_found") return null;
    throw error;
  }
}

function articleView(row: ArticleRow): z.infer<typeof ArticleSchema> {
  return {
    id: row.id,
    brand: row.brand,
    keyword: row.keyword,
    title: row.title,
    status: row.status,
    revision: row.revision,
    url: row.url,
    post_uri: row.postUri,
    model: row.model,
    input_tokens: row.inputTokens,
    output_tokens: row.outputTokens,
    created_at: iso(row.createdAt),
    published_at: isoOrNull(row.publishedAt),
  };
}
