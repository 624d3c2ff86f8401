import { MillraceError } from "millrace";
import { type CallOptions, type Page, type Pages, type ProvidersEnv, pages } from "../../providers/index.ts";

/** The store of a page: undefined or null for pages from before this column, which count as in the current store. */
interface Kept {
  store?: string | null | undefined;
}

/**
 * The configured store, unless a page is in another one. Errors: `config_invalid`, which names both: a removal in another store would
 * succeed without removing the page.
 */
export function storeOf(env: ProvidersEnv, { store }: Kept): Pages {
  const configured = pages(env);
  if (!store || store === configured.store) return configured;
  throw new MillraceError(
    "config_invalid",
    `The page is published in the store "${store}", but PAGES_PROVIDER and PAGES_URL name "${configured.store}": restore the old values, remove the page, then change them.`,
  );
}

/**
 * Removes a page, and verifies it with its store. Errors: `config_invalid` for another store than the page's; `unavailable` while it is
 * still published.
 */
export async function takeDown(env: ProvidersEnv, page: Pick<Page, "path" | "slug"> & Kept, options: CallOptions): Promise<void> {
  const store = storeOf(env, page);
  await store.remove(page, options);
  if ((await store.find(page, options)) === undefined) return;
  throw new MillraceError("unavailable", `The store "${store.store}" accepted the removal of the page, but the page is still published.`);
}
