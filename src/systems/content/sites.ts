import { MillraceError } from "millrace";
import type { SiteTarget, SocialTarget } from "../../providers/index.ts";
import { type Account, type BrandSettings, brandSettings } from "../brand/settings.ts";
import type { BrandKey } from "./live.ts";

/** A site of a brand, with its position in the brand's settings. */
export type BrandSite = SiteTarget & { place: number };

/** One of a brand's sites, by default the first. Errors: `config_invalid` for another name. */
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
 * One of the brand's sites, for a step that was chosen for this kind of site. Errors: `config_invalid` for another kind, because the guard
 * of the step may not fit it.
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
