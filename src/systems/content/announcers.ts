import type { Routed } from "millrace";
import { announcedSite, brandSettings } from "../brand/settings.ts";

/** A page on a site, as its event names it. */
interface PublishedPage {
  content_id: string;
  brand: string;
  site: string;
}

/**
 * One announcement for each account of the brand, if the page is on the announced site. A repeated event gives the same commands, and
 * later accounts get their own.
 */
export async function announcers({ payload: { content_id, brand, site }, envelope: { tenant_id }, env, once }: Routed<PublishedPage>) {
  const settings = await once(`settings of ${tenant_id}/${brand}`, () => brandSettings(env.DB, tenant_id, brand));
  if (announcedSite(settings)?.name !== site) return [];
  return settings.accounts.map(({ name, platform }) => ({ content_id, brand, account: name, platform }));
}
