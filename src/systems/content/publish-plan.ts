import type { Steps } from "millrace";
import type { SiteTarget } from "../../providers/index.ts";
import { brandSettings } from "../brand/settings.ts";
import { publishQuestion } from "./approval.ts";
import { pagesOf } from "./article-pages.ts";
import { type ArticleKey, loadArticle } from "./articles.ts";

/** A site of a brand, as it was when the publication was requested. */
export type PlannedSite = Pick<SiteTarget, "name" | "kind">;

/** How an article is published, by the settings of its brand. */
interface PublishPlan {
  question: Parameters<Steps["approve"]>[1] | null;
  /** The first site; undefined if the plan is for an update and the article is no longer published. */
  site: PlannedSite | undefined;
  others: PlannedSite[];
}

/** Plans a publication. With `update`, the plan contains only the sites where the article is published. */
export async function publishPlan(
  db: D1Database,
  { update = false, ...article }: ArticleKey & { brand: string; update?: boolean | undefined },
): Promise<PublishPlan> {
  const settings = await brandSettings(db, article.tenantId, article.brand);
  // An update needs no approval, because an operator has written the new text.
  const question = update ? null : await publishQuestion(db, settings, article);
  const pages = update ? await pagesOf(db, article.tenantId, await loadArticle(db, article)) : [];
  const isUp = (name: string) => pages.some((page) => page.site === name && page.status === "published");
  const sites = settings.sites.filter(({ name }) => !update || isUp(name)).map(({ name, kind }) => ({ name, kind }));
  const [site, ...others] = sites;
  return { question, site, others };
}
