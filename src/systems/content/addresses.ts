import { MAIN } from "../../messages/targets.ts";
import { type ProvidersEnv, publicUrl } from "../../providers/index.ts";
import type { BrandKey } from "./live.ts";

/** The key of a site of a brand, with the site's name. */
type SiteKey = BrandKey & { site: string };

/** Returns the public URLs of a brand's site: its index of articles and its feed. */
export function siteAddresses(env: ProvidersEnv, key: SiteKey): { index: string; feed: string } {
  const index = publicUrl(env, `pages/${sitePath(key)}/`);
  return { index, feed: `${index}feed.xml` };
}

/**
 * Returns the path of a site in a page store. The path starts with the tenant, because two tenants may have a brand of the same name. The
 * path omits the name of a brand's only site.
 */
export function sitePath({ tenantId, brand, site }: SiteKey): string {
  return [tenantId, brand, ...(site === MAIN ? [] : [site])].join("/");
}
