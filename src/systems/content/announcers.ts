import type { Routed } from "millrace";
import { announcedSite, brandSettings } from "../brand/settings.ts";

/** A page on a site, as the event of its publication names it. */
interface PublishedPage {
  content_id: string;
  brand: string;
  site: string;
  again: boolean;
}

/**
 * Creates one announcement for each account of the brand, if the page is new on the announced site. A repeated event creates the same
 * commands. An update and a republish of a page announce nothing, also on an account that the brand got later.
 */
export async function announcers({
  payload: { content_id, brand, site, again },
  envelope: { tenant_id },
  env,
  once,
}: Routed<PublishedPage>) {
  if (again) return [];
  const settings = await once(`settings of ${tenant_id}/${brand}`, () => brandSettings(env.DB, tenant_id, brand));
  if (announcedSite(settings)?.name !== site) return [];
  return settings.accounts.map(({ name, platform }) => ({ content_id, brand, account: name, platform }));
}
