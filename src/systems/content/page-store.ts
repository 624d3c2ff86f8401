import { MillraceError } from "millrace";
import { type CallOptions, type Page, type Pages, type ProvidersEnv, pages } from "../../providers/index.ts";

/** Where a page is kept: undefined or null for one that was put up before that was remembered, which is taken to be in today's store. */
interface Kept {
  store?: string | null | undefined;
}

/**
 * The store that this deployment is configured for, if a page that is up is in no other one. Errors: `config_invalid`, which names both:
 * what is asked of another store than the page's would be done, and the page would stay up.
 */
export function storeOf(env: ProvidersEnv, { store }: Kept): Pages {
  const configured = pages(env);
  if (!store || store === configured.store) return configured;
  throw new MillraceError(
    "config_invalid",
    `The page is up in the store "${store}", and PAGES_PROVIDER and PAGES_URL name "${configured.store}": set them back, take it down there, then change them.`,
  );
}

/**
 * Takes a page down, and asks its store for it then. Errors: `config_invalid` for another store than the page's; `unavailable` while it is
 * still up.
 */
export async function takeDown(env: ProvidersEnv, page: Pick<Page, "path" | "slug"> & Kept, options: CallOptions): Promise<void> {
  const store = storeOf(env, page);
  await store.remove(page, options);
  if ((await store.find(page, options)) === undefined) return;
  throw new MillraceError("unavailable", `The store "${store.store}" has taken the removal of the page, and the page is still up.`);
}
