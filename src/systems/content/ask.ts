import { type EngineEnv, enqueueOne, ids } from "millrace";
import { audit, type Operator } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { ContentPublish, ContentPublishToSite, ContentUnpublish } from "../../messages/content.ts";
import { siteKey } from "../../messages/targets.ts";
import { type ArticlePage, pageStillIs } from "./article-pages.ts";
import type { ArticleRow } from "./article-rows.ts";
import { stillIs } from "./articles.ts";
import type { PlannedSite } from "./publish-plan.ts";

/** The status of an article before and after each action, for the audit. */
const MOVED = {
  publish: { before: { status: "unpublished" }, after: { status: "published" } },
  unpublish: { before: { status: "published" }, after: { status: "unpublished" } },
} as const;

/** An article and one site, with the article's page on this site. The page is undefined if the article was never published on this site. */
interface Asked {
  article: Pick<ArticleRow, "id" | "brand" | "revision">;
  site: PlannedSite;
  page: ArticlePage | undefined;
}

/**
 * Publishes an article again. For the first site of the brand, the instance also publishes on all other sites; for another site, only on
 * this site.
 */
export function askToPublish(env: EngineEnv, catalog: Catalog, by: Operator, asked: Asked & { isFirst: boolean }, reason: string) {
  const { article, site, isFirst } = asked;
  const payload = { content_id: article.id, brand: article.brand };
  // The key contains the revision, because the automatic publication after a draft uses the article's id as its key.
  const occasion = `${article.id}/${article.revision}`;
  const command = isFirst
    ? { command: ContentPublish, payload, idempotencyKey: occasion }
    : { command: ContentPublishToSite, payload: { ...payload, site: site.name, kind: site.kind, occasion } };
  return ask(env, catalog, by, "publish", asked, command, reason);
}

/**
 * Removes an article's page from a site by a separate instance. A separate instance is needed if the instance that publishes on this site
 * was pruned, or has not published this page.
 */
export function askToUnpublish(env: EngineEnv, catalog: Catalog, by: Operator, asked: Asked & { page: ArticlePage }, reason: string) {
  const { article, site, page } = asked;
  const payload = { content_id: article.id, brand: article.brand, revision: page.revision, site: site.name };
  return ask(env, catalog, by, "unpublish", asked, { command: ContentUnpublish, payload }, reason);
}

/** Repeated requests for one revision of an article start one instance. The request's command and audit row are one write. */
async function ask(
  env: EngineEnv,
  catalog: Catalog,
  by: Operator,
  verb: "publish" | "unpublish",
  { article: { id, revision }, site, page }: Asked,
  command: Parameters<typeof enqueueOne>[3],
  reason: string,
): Promise<{ actionId: string; instanceId: string }> {
  // A repeated request writes no second audit row, and returns the id of the first request's audit row.
  const action = {
    id: ids.digest("article", verb, by.tenantId, siteKey(id, site.name), String(page?.revision ?? revision)),
    verb,
    target: id,
    instanceId: null,
    reason,
    detail: { revision: page?.revision ?? revision, site: site.name },
    ...MOVED[verb],
  };
  const key = { tenantId: by.tenantId, id };
  const unchanged = page?.instanceId ? pageStillIs(key, page) : stillIs({ ...key, revision });
  const also = [unchanged, audit(by, action, false)];
  const { instanceId } = await enqueueOne(env, catalog, { tenantId: by.tenantId, source: "api" }, command, also);
  return { actionId: action.id, instanceId };
}
