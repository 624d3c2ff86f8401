import { MillraceError } from "millrace";
import { type CallOptions, type Page, type Pages, type ProvidersEnv, type SiteTarget, siteTarget } from "../../providers/index.ts";

/**
 * The store of a page: undefined or null for a page that was published before this column existed. Such a page counts as stored in the
 * site's current store.
 */
interface Kept {
  store?: string | null | undefined;
}

/**
 * Returns the site's configured store. Errors: `config_invalid`, with the names of both stores, if the page is in another store. Without
 * this check, a removal from the wrong store would succeed without removing the page.
 */
export function storeOf(env: ProvidersEnv, site: SiteTarget, { store }: Kept): Pages {
  const configured = siteTarget(env, site);
  if (!store || store === configured.store) return configured;
  const names = site.kind === "deployment" ? "PAGES_PROVIDER and PAGES_URL name" : `the site "${site.name}" is`;
  const back =
    site.kind === "deployment"
      ? "restore the old values, remove the page, then change them"
      : "restore it, remove the page, then change it";
  throw new MillraceError("config_invalid", `The page is published in the store "${store}", but ${names} "${configured.store}": ${back}.`);
}

/**
 * Removes a page from its store, and verifies the removal. Errors: `config_invalid` if the page is in another store; `unavailable` while
 * the page is still published.
 */
export async function takeDown(
  env: ProvidersEnv,
  site: SiteTarget,
  page: Pick<Page, "path" | "slug"> & Kept,
  options: CallOptions,
): Promise<void> {
  const store = storeOf(env, site, page);
  await store.remove(page, options);
  if ((await store.find(page, options)) === undefined) return;
  throw new MillraceError("unavailable", `The store "${store.store}" accepted the removal of the page, but the page is still published.`);
}
