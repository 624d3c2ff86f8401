import { MillraceError } from "millrace";
import type { SiteTarget, SocialTarget } from "../../providers/index.ts";
import { type Account, type BrandSettings, brandSettings } from "../brand/settings.ts";
import type { BrandKey } from "./live.ts";

/** A site of a brand, with its position in the brand's settings. */
export type BrandSite = SiteTarget & { place: number };

/**
 * Returns a brand's site with this name, by default the brand's first site. Throws `config_invalid` if the brand has no site of this name.
 */
export async function brandSite(db: D1Database, { tenantId, brand }: BrandKey, name?: string): Promise<BrandSite> {
  const { sites } = await brandSettings(db, tenantId, brand);
  const place = name === undefined ? 0 : sites.findIndex((one) => one.name === name);
  const site = sites[place];
  if (site) return { tenantId, brand, ...site, place };
  throw new MillraceError(
    "config_invalid",
    `The brand ${brand} has no site "${name}". Put it back into its settings, or choose one of: ${sites.map((one) => one.name).join(", ")}.`,
  );
}

/**
 * Returns the brand's site with this name and this kind, for a step that works only with this kind. Throws `config_invalid` if the site now
 * has another kind, because the step's guard may not fit that kind.
 */
export async function brandSiteOf(db: D1Database, key: BrandKey, { name, kind }: Pick<SiteTarget, "name" | "kind">): Promise<BrandSite> {
  const site = await brandSite(db, key, name);
  if (site.kind === kind) return site;
  throw new MillraceError(
    "config_invalid",
    `The site "${name}" was of the kind ${kind} when its page was requested, and is ${site.kind} now.`,
  );
}

/**
 * One of a brand's accounts. Throws `config_invalid` if the brand has no account of this name, or the account is on another
 * platform.
 */
export function brandAccount({ accounts }: BrandSettings, { tenantId, brand }: BrandKey, { name, platform }: Account): SocialTarget {
  const account = accounts.find((one) => one.name === name);
  if (account?.platform === platform) return { tenantId, brand, ...account };
  const known = accounts.map((one) => `${one.name} on ${one.platform}`).join(", ") || "none";
  throw new MillraceError("config_invalid", `The brand ${brand} has no account "${name}" on ${platform}. Its accounts: ${known}.`);
}
