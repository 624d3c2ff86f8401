import type { ApprovalRequest } from "millrace";
import type { SiteTarget } from "../../providers/index.ts";
import { brandSettings } from "../brand/settings.ts";
import { publishQuestion } from "./approval.ts";
import type { ArticleKey } from "./articles.ts";

/** A site at the time of a publication's request. */
export type PlannedSite = Pick<SiteTarget, "name" | "kind">;

/** How an article is published, by the settings of its brand. */
interface PublishPlan {
  /** Null if the brand requires no approval. */
  question: ApprovalRequest | null;
  site: PlannedSite;
  others: PlannedSite[];
}

export async function publishPlan(db: D1Database, article: ArticleKey & { brand: string }): Promise<PublishPlan> {
  const settings = await brandSettings(db, article.tenantId, article.brand);
  const question = await publishQuestion(db, settings, article);
  const [site, ...others] = settings.sites.map(({ name, kind }) => ({ name, kind }));
  // The settings have at least one site.
  return { question, site: site as PlannedSite, others };
}
