import { ids } from "millrace";
import { socialKey } from "../../messages/social.ts";
import { type Account, type BrandSettings, brandSettings } from "../brand/settings.ts";
import { type ArticlePage, pagesOf } from "./article-pages.ts";
import { type ArticlePost, postsOf } from "./article-posts.ts";
import type { ArticleRow } from "./article-rows.ts";
import type { PlannedSite } from "./publish-plan.ts";

/** A present or former site of an article's brand, with the article's page on this site, if any. */
export interface OnSite {
  site: PlannedSite;
  page: ArticlePage | undefined;
  /** The instance of the chain that publishes the article on this site. */
  instanceId: string;
  /** True for the site that `content.publish` itself publishes on. */
  isFirst: boolean;
}

/** An account of an article's brand, with the post about the article on this account, if any. */
export interface OnAccount {
  account: Account;
  post: ArticlePost | undefined;
  instanceId: string;
}

/**
 * Returns the sites and accounts of an article. These are the sites and accounts of the article's brand, and former sites and accounts that
 * have a page or a post of the article.
 */
export async function whereIs(db: D1Database, tenantId: string, article: ArticleRow): Promise<{ sites: OnSite[]; accounts: OnAccount[] }> {
  const [settings, pages, posts] = await Promise.all([
    brandSettings(db, tenantId, article.brand),
    pagesOf(db, tenantId, article),
    postsOf(db, { tenantId, id: article.id }),
  ]);
  return { sites: onSites(settings, tenantId, article.id, pages), accounts: onAccounts(settings, tenantId, article.id, posts) };
}

function onSites({ sites }: BrandSettings, tenantId: string, id: string, pages: readonly ArticlePage[]): OnSite[] {
  const former = pages.filter(({ site }) => !sites.some(({ name }) => name === site)).map(({ site, kind }) => ({ name: site, kind }));
  return [...sites, ...former].map(({ name, kind }, place) => {
    const page = pages.find(({ site }) => site === name);
    const isFirst = place === 0;
    const first = ids.instance(tenantId, "publish-article", id);
    const further = ids.instance(tenantId, "publish-to-site", `${id}/${name}`);
    // The order of the brand's sites may have changed since the publication, so either instance may have published the page. The instance
    // of an operator's command to publish is not considered, because it is not retried.
    const own = [first, further].find((one) => one === page?.instanceId) ?? (isFirst ? first : further);
    return { site: { name, kind }, page, instanceId: own, isFirst };
  });
}

function onAccounts({ accounts }: BrandSettings, tenantId: string, id: string, posts: readonly ArticlePost[]): OnAccount[] {
  const former = posts
    .filter((post) => !accounts.some(({ name }) => name === post.account))
    .map(({ account, platform }) => ({ name: account, platform }));
  return [...accounts, ...former].map((account) => ({
    account,
    post: posts.find((post) => post.account === account.name && post.platform === account.platform),
    instanceId: ids.instance(tenantId, "post-to-social", socialKey(id, account)),
  }));
}
