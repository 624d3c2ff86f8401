import type { Routed } from "millrace";
import { announcedSite, brandSettings } from "../brand/settings.ts";

/** A page on a site, with the fields that the publication's event contains. */
interface PublishedPage {
  content_id: string;
  brand: string;
  site: string;
  again: boolean;
}

/**
 * Creates one announcement for each account of the brand, if the event reports a new page on the announced site. A repeated event creates
 * the same commands. An updated or republished page is not announced, not even on an account that the brand has added since the first
 * publication.
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
