import { type Commit, type Draft, ids } from "millrace";
import { ContentPublished, ContentPublishToSite, ContentUnpublished } from "../../messages/content.ts";
import { markPublished, markUnpublished } from "./article-pages.ts";
import type { ArticleKey } from "./articles.ts";
import { type PutPage, siteOf } from "./page.ts";
import type { PlannedSite } from "./publish-plan.ts";

/** Maximum length of an occasion in the key of a command; a longer occasion is replaced by its digest. */
const OCCASION_CHARACTERS = 400;

/** The commands that publish an article on more sites. `occasion` is the key of the command that started the approved publication. */
export function toOtherSites(
  { id, brand, update }: ArticleKey & { brand: string; update?: boolean | undefined },
  sites: readonly PlannedSite[],
  occasion: string,
): Draft[] {
  const short = occasion.length > OCCASION_CHARACTERS ? ids.digest("occasion", occasion) : occasion;
  return sites.map(({ name, kind }) => ContentPublishToSite.from({ content_id: id, brand, site: name, kind, occasion: short, update }));
}

/** The rows and events to write after an instance has published a page. */
export function wasPublished(instanceId: string): (put: PutPage) => Commit<never> {
  return (live) => {
    if ("why" in live) return {};
    const { kind: platform, ...change } = live;
    return { statements: markPublished({ ...live, instanceId }), emit: [ContentPublished.from({ ...change, platform })] };
  };
}

/** The rows and events to write after an undo has removed a page. */
export function wasRemoved(live: PutPage): Commit<never> {
  if ("why" in live) return {};
  const gone = { ...live, site: siteOf(live), revision: live.revision + 1 };
  return { statements: markUnpublished(gone), emit: [ContentUnpublished.from(gone)] };
}
