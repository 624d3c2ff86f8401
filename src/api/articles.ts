import { atomically, errors, ids, MillraceError } from "millrace";
import { bodies, HttpRefusal, pages, times } from "millrace/http";
import { approvals, auditLate, type Instance, instances, type Token } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { platform, siteKind, targetName } from "../messages/targets.ts";
import type { ArticlePage } from "../systems/content/article-pages.ts";
import { type ArticleRow, findArticle, listArticles } from "../systems/content/article-rows.ts";
import { askToPublish, askToUnpublish } from "../systems/content/ask.ts";
import { type OnSite, whereIs } from "../systems/content/where.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

const STATUSES = ["draft", "published", "unpublished", "rejected"] as const;

const ArticleSchema = z
  .object({
    id: z.string(),
    brand: z.string(),
    keyword: z.string(),
    title: z.string().meta({ description: "The title is text from a model: never show it as HTML." }),
    description: z.string().meta({ description: "The article's summary in one or two sentences; empty for none." }),
    key_points: z.array(z.string()).meta({ description: "The article's key points, from its research." }),
    word_count: z.int().nullable().meta({ description: "The number of words in the body; null for older articles." }),
    template: z.string().nullable().meta({ description: "The brand's template when the article was written; null for older articles." }),
    research_id: z.string().nullable().meta({ description: "The article's research: GET /v1/research/{id}; null for older articles." }),
    status: z.enum(STATUSES),
    revision: z.int().meta({ description: "The revision of the article: 1 is the draft, and each change adds 1." }),
    url: z.string().nullable().meta({ description: "The page on the first site, also after its removal; null if never published." }),
    post_uri: z.string().nullable().meta({ description: "The article's post on the account `main`, or else on the first account." }),
    model: z.string(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    created_at: times.timestamp,
    published_at: times.timestamp.nullable().meta({ description: "The first time." }),
  })
  .meta({ id: "Article" });

const instance = z.object({ id: z.string(), status: z.string() }).nullable();

/** The states of an article on a site or account without a recorded result. */
const UNDER_WAY = ["pending", "failed", "in_doubt", "none"] as const;
const underWay =
  "`pending`: the instance for it is under way; `failed`: the instance has failed; `in_doubt`: its outcome is unknown; `none`: nothing is to be done.";

const PublishedSchema = z
  .object({
    site: z.string(),
    kind: siteKind.meta({ description: "The site's kind in the settings of the brand." }),
    url: z.string().nullable().meta({ description: "The URL of the page, which is kept after a removal." }),
    status: z.enum(["published", "unpublished", ...UNDER_WAY]).meta({ description: underWay }),
    revision: z.int().nullable().meta({ description: "The article's revision with the last change of this page." }),
    instance,
  })
  .meta({ id: "ArticlePage" });

const PostSchema = z
  .object({
    account: z.string(),
    platform,
    uri: z.string().nullable().meta({ description: "The post's name on its platform." }),
    url: z.string().nullable().meta({ description: "The post's public web page." }),
    status: z.enum(["posted", ...UNDER_WAY]).meta({ description: underWay }),
    posted_at: times.timestamp.nullable(),
    instance,
  })
  .meta({ id: "ArticlePost" });

const ArticleDetailSchema = ArticleSchema.extend({
  body: z.string().meta({ description: "The body as Markdown from a model, without the title." }),
  approval_id: z.string().nullable().meta({ description: "The open question about the article: answer it under /v1/approvals." }),
  instances: z.object({ generate: instance, publish: instance, social: instance }).meta({
    description: "The article's instances; null before the start and after pruning. `social` is the instance of the first account.",
  }),
  published_to: z.array(PublishedSchema).meta({ description: "The article's pages: on its brand's sites, and where it was published." }),
  posts: z.array(PostSchema).meta({ description: "The article's posts: on its brand's accounts, and where it was announced." }),
}).meta({ id: "ArticleDetail" });

const targeted = bodies.reasoned.extend({
  site: targetName.optional().meta({ description: "The site. Default: all sites of the brand." }),
});

const MovedSchema = z.object({
  action_id: z.string(),
  instance_id: z.string(),
  sites: z
    .array(z.object({ site: z.string(), action_id: z.string(), instance_id: z.string() }))
    .meta({ description: "The action and its instance for each site; `action_id` and `instance_id` repeat those of the first site." }),
});

export const articles = [
  operation("get", "/v1/articles", "listArticles", "articles list", {
    summary: "List articles, newest first",
    description: "Returns the articles of your tenant with their state.",
    query: { brand: z.string().optional(), status: z.enum(STATUSES).optional(), ...pages.query },
    answer: ["A page of articles", pages.schema(ArticleSchema)],
    run: async ({ env, by, query }) => pages.of(await listArticles(env.DB, by.tenantId, query), articleView),
  }),
  operation("get", "/v1/articles/{id}", "getArticle", "articles show", {
    summary: "Get an article",
    description: "Returns the text of the article, its open question and the instance that works on it.",
    answer: ["The article", ArticleDetailSchema],
    problems: ["article_not_found"],
    async run({ env, by, param }) {
      const article = await owned(env, by, param.id);
      const where = await whereIs(env.DB, by.tenantId, article);
      const publisher = publishInstance(by, article.id);
      const [generate, publish, { items: open }, sites, accounts] = await Promise.all([
        statusOf(env, by, article.id),
        statusOf(env, by, publisher),
        approvals.list(env, by, { instance: publisher, state: "pending" }),
        Promise.all(where.sites.map(async (one) => ({ ...one, instance: await statusOf(env, by, one.instanceId) }))),
        Promise.all(where.accounts.map(async (one) => ({ ...one, instance: await statusOf(env, by, one.instanceId) }))),
      ]);
      const published_to = sites.map(({ site: { name, kind }, page, instance }) => ({
        site: name,
        kind,
        url: page?.url ?? null,
        status: page?.status ?? underWayAs(instance),
        revision: page?.revision ?? null,
        instance,
      }));
      const posts = accounts.map(({ account: { name, platform }, post, instance }) => ({
        account: name,
        platform,
        uri: post?.uri ?? null,
        url: post?.url ?? null,
        status: post ? ("posted" as const) : underWayAs(instance),
        posted_at: times.isoOrNull(post?.postedAt ?? null),
        instance,
      }));
      const instances = { generate, publish, social: accounts[0]?.instance ?? null };
      const detail = { body: article.body, approval_id: open[0]?.id ?? null, instances, published_to, posts };
      return { ...articleView(article), ...detail };
    },
  }),
  operation("post", "/v1/articles/{id}/unpublish", "unpublishArticle", "articles unpublish", {
    summary: "Unpublish an article",
    description:
      "Removes the article's page from a site, or from all sites: undoes the instance that published it there. If that instance was pruned, a `content.unpublish` command removes the page. The article's entries in index and feed are removed too. Social posts about the article remain.",
    body: targeted,
    answer: ["The page will be removed", MovedSchema],
    status: 202,
    problems: ["article_not_found", "invalid_transition"],
    async run({ env, by, catalog, param, body: { reason, site } }) {
      const article = await ownedAs(env, by, param.id, "unpublish", reason, site);
      const { sites } = await whereIs(env.DB, by.tenantId, article);
      const up = sites.filter((one) => one.page?.status === "published" && (site === undefined || one.site.name === site));
      return moved(up, (one) => takeDown(env, catalog, by, article, one, reason));
    },
  }),
  operation("post", "/v1/articles/{id}/publish", "publishArticle", "articles publish", {
    summary: "Publish an article again",
    description:
      "Publishes an article on a site, or on all sites of its brand where it has no page: retries the failed or undone instance for the site. If the page was removed without an undo of that instance, a command publishes the page. A new article is published by its chain of workflows or by the approval.",
    body: targeted,
    answer: ["The page will be published", MovedSchema],
    status: 202,
    problems: ["article_not_found", "instance_not_found", "invalid_transition"],
    async run({ env, by, catalog, param, body: { reason, site } }) {
      const article = await ownedAs(env, by, param.id, "publish", reason, site);
      const { sites } = await whereIs(env.DB, by.tenantId, article);
      const down = sites.filter((one) => one.page?.status !== "published" && (site === undefined || one.site.name === site));
      return putUp(env, catalog, by, article, down, { reason, named: site !== undefined });
    },
  }),
];

type Env = ApiEnv["Bindings"];
type Moved = { site: string; action_id: string; instance_id: string };

/** Removes an article's page from one site by an undo of the instance that published the page, or by a command without that instance. */
async function takeDown(env: Env, catalog: Catalog, caller: Token, article: ArticleRow, on: OnSite, reason: string): Promise<Moved> {
  const { site, page, instanceId: id } = on;
  const instance = await instanceOf(env, caller, id);
  if (page && !(instance && (await hasPutUp(env, caller, instance, page)))) {
    const asked = await askToUnpublish(env, catalog, caller, { article, site, page }, reason);
    return { site: site.name, action_id: asked.actionId, instance_id: asked.instanceId };
  }
  // A failed undo is retried like any instance.
  const { action_id: actionId } = await (instance && hasFailedUndo(instance)
    ? instances.act(env, caller, "retry", id, { reason })
    : instances.act(env, caller, "undo", id, { reason }));
  return { site: site.name, action_id: actionId, instance_id: id };
}

/**
 * Publishes an article on sites by a retry of each site's instance, or by a command if the instance was pruned. A command for the first
 * site includes the other sites, unless the caller chose one site (`named`).
 */
async function putUp(
  env: Env,
  catalog: Catalog,
  caller: Token,
  article: ArticleRow,
  sites: readonly OnSite[],
  { reason, named }: { reason: string; named: boolean },
) {
  const isUnpublished = article.status !== "draft";
  let includesOthers = false;
  return moved(sites, async (on) => {
    const { site, page, instanceId: id } = on;
    const isFirst = on.isFirst && !named;
    const instance = await instanceOf(env, caller, id);
    if (isUnpublished && (!instance || instance.status === "complete" || hasFailedUndo(instance))) {
      if (!isFirst && includesOthers) return undefined;
      includesOthers ||= isFirst;
      const asked = await askToPublish(env, catalog, caller, { article, site, page, isFirst }, reason);
      return { site: site.name, action_id: asked.actionId, instance_id: asked.instanceId };
    }
    if (!instance) {
      const said = on.isFirst
        ? "publish-article instance: send content.publish."
        : `instance for the site ${site.name}: it is published with the first one.`;
      throw new MillraceError("instance_not_found", `This article has no ${said}`);
    }
    const { action_id: actionId } = await instances.act(env, caller, "retry", id, { reason });
    return { site: site.name, action_id: actionId, instance_id: id };
  });
}

/**
 * Acts on an article at each of the given sites. A refusal at one site does not affect the other sites. The first refusal is thrown if no
 * site was changed.
 */
async function moved(sites: readonly OnSite[], act: (on: OnSite) => Promise<Moved | undefined>) {
  const done: Moved[] = [];
  let refused: unknown;
  for (const one of sites) {
    try {
      const did = await act(one);
      if (did) done.push(did);
    } catch (error) {
      refused ??= error;
    }
  }
  const [first] = done;
  if (first) return { action_id: first.action_id, instance_id: first.instance_id, sites: done };
  throw (
    refused ??
    new MillraceError("invalid_transition", "The brand of this article has no such site, or its page there is in this state already.")
  );
}

/** Returns an article of the caller's tenant. Errors: `article_not_found`, also for an article of another tenant. */
export async function owned({ DB }: ApiEnv["Bindings"], { tenantId }: Token, id: string) {
  const article = await findArticle(DB, tenantId, id);
  if (!article) throw new HttpRefusal("article_not_found", "There is no such article. List them with GET /v1/articles.");
  return article;
}

/** For each verb, the statuses that an article can change from, and the resulting status. */
const MOVES = {
  publish: { from: ["draft", "unpublished"], to: "published" },
  unpublish: { from: ["published"], to: "unpublished" },
} as const;

/**
 * Returns an article of the caller's tenant, if the article's status allows this change. Errors: `article_not_found`; `invalid_transition`,
 * which is audited. An undo of the audited refusal would change no data, and a retry would be refused again.
 */
async function ownedAs(
  env: ApiEnv["Bindings"],
  caller: Token,
  id: string,
  verb: keyof typeof MOVES,
  reason: string,
  site: string | undefined,
): Promise<ArticleRow & { body: string }> {
  const article = await owned(env, caller, id);
  const { status } = article;
  const { from, to } = MOVES[verb];
  if (from.some((one) => one === status)) return article;
  // A published article may still have no page on one of its sites.
  if (verb === "publish" && status === "published" && (await isMissing(env, caller, article, site))) return article;
  const action = { id: crypto.randomUUID(), verb, target: article.id, instanceId: null, reason, detail: { status } };
  await atomically(env.DB, [auditLate(caller, action)]);
  const said = `The article's status is ${status}: only from ${from.join(" or ")} can it become ${to}.`;
  throw new MillraceError("invalid_transition", said, { from: status, to, audited: true });
}

/** True if an article has no page on at least one site of its brand, or on the given site. */
async function isMissing(env: Env, caller: Token, article: ArticleRow, name: string | undefined): Promise<boolean> {
  const { sites } = await whereIs(env.DB, caller.tenantId, article);
  return sites.some(({ site, page }) => page?.status !== "published" && (name === undefined || site.name === name));
}

/** Finds the instance that publishes an article on a site; undefined if that instance never existed or was pruned. */
function instanceOf(env: Env, caller: Token, id: string): Promise<Instance | undefined> {
  return instances.get(env, caller, id).catch((error) => {
    if (errors.codeOf(error) !== "instance_not_found") throw error;
    return undefined;
  });
}

const hasFailedUndo = ({ undo, status }: Instance): boolean => undo !== null && status === "errored";

/** True if this instance published the present page. An instance's undo removes only a page that the instance published. */
async function hasPutUp(env: Env, caller: Token, { id }: Instance, { revision }: ArticlePage): Promise<boolean> {
  const effects = await instances.effects(env, caller, id);
  const put = effects.findLast(({ step, state, undo }) => step === "put page" && state === "done" && undo !== "undo_step");
  return JSON.parse(put?.output ?? "{}").revision === revision;
}

/** Returns the state of a site or account without a page or a post, from the status of its instance. */
function underWayAs(instance: { status: string } | null): (typeof UNDER_WAY)[number] {
  if (instance === null) return "none";
  if (instance.status === "in_doubt") return "in_doubt";
  if (FAILED.has(instance.status)) return "failed";
  return instance.status === "complete" || instance.status === "skipped" ? "none" : "pending";
}
const FAILED: ReadonlySet<string> = new Set(["errored", "terminated", "dead"]);

/** Returns the id of the instance that publishes an article. The id of the article is the key of the instance's command. */
const publishInstance = ({ tenantId }: Token, articleId: string): string => ids.instance(tenantId, "publish-article", articleId);

/** Returns an instance's id and status; null if the instance does not exist. */
async function statusOf(env: ApiEnv["Bindings"], caller: Token, id: string): Promise<z.infer<typeof instance>> {
  try {
    return { id, status: (await instances.get(env, caller, id)).status };
  } catch (error) {
    if (errors.codeOf(error) === "instance_not_found") return null;
    throw error;
  }
}

function articleView(row: ArticleRow): z.infer<typeof ArticleSchema> {
  return {
    id: row.id,
    brand: row.brand,
    keyword: row.keyword,
    title: row.title,
    description: row.description,
    key_points: row.keyPoints,
    word_count: row.wordCount,
    template: row.template,
    research_id: row.researchId,
    status: row.status,
    revision: row.revision,
    url: row.url,
    post_uri: row.postUri,
    model: row.model,
    input_tokens: row.inputTokens,
    output_tokens: row.outputTokens,
    created_at: times.iso(row.createdAt),
    published_at: times.isoOrNull(row.publishedAt),
  };
}
