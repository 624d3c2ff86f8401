import { MillraceError } from "millrace";
import type { SiteTarget, SocialTarget } from "../../providers/index.ts";
import { type Account, type BrandSettings, brandSettings, type Site } from "../brand/settings.ts";
import type { BrandKey } from "./live.ts";

/** A site of a brand, with its position in the brand's settings. */
export type BrandSite = SiteTarget & { place: number };

/** The sites of a brand, the first first. */
export async function sitesOf(db: D1Database, key: BrandKey): Promise<BrandSite[]> {
  return sitesIn(await brandSettings(db, key.tenantId, key.brand), key);
}

export function sitesIn({ sites }: Pick<BrandSettings, "sites">, { tenantId, brand }: BrandKey): BrandSite[] {
  return sites.map((site: Site, place) => ({ tenantId, brand, ...site, place }));
}

/** One of a brand's sites. Errors: `config_invalid` for another name. */
export async function brandSite(db: D1Database, key: BrandKey, name: string): Promise<BrandSite> {
  const sites = await sitesOf(db, key);
  const site = sites.find((one) => one.name === name);
  if (site) return site;
  throw new MillraceError(
    "config_invalid",
    `The brand ${key.brand} has no site "${name}". Put it back into its settings, or choose one of: ${sites.map((one) => one.name).join(", ")}.`,
  );
}

/**
 * The same for a step that was chosen for this kind of site. Errors: `config_invalid` for another kind, because the guard of the step may
 * not fit it.
 */
export async function brandSiteOf(db: D1Database, key: BrandKey, { name, kind }: Pick<SiteTarget, "name" | "kind">): Promise<BrandSite> {
  const site = await brandSite(db, key, name);
  if (site.kind === kind) return site;
  throw new MillraceError(
    "config_invalid",
    `The site "${name}" was of the kind ${kind} when its page was requested, and is ${site.kind} now.`,
  );
}

/** One of a brand's accounts. Errors: `config_invalid` for another name, or another platform. */
export function brandAccount({ accounts }: BrandSettings, { tenantId, brand }: BrandKey, { name, platform }: Account): SocialTarget {
  const account = accounts.find((one) => one.name === name);
  if (account?.platform === platform) return { tenantId, brand, ...account };
  const known = accounts.map((one) => `${one.name} on ${one.platform}`).join(", ") || "none";
  throw new MillraceError("config_invalid", `The brand ${brand} has no account "${name}" on ${platform}. Its accounts: ${known}.`);
}
