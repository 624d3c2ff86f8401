import * as z from "zod";

/** The name of the site and the account of a brand that has set none. Paths and keys of this site and account contain no name. */
export const MAIN = "main";

/** A name of a site or an account, unique within its brand. The name begins with a letter, so that no key mistakes it for a revision. */
export const targetName = z
  .string()
  .max(40)
  .regex(/^[a-z][a-z0-9-]*$/, "must be lower case letters, digits and dashes, and begin with a letter")
  .meta({ examples: [MAIN] });

/**
 * `deployment`: the site of the deployment's variables. `store`: the page store in R2. The address of a site of another kind is in a
 * secret.
 */
const SITE_KINDS = ["deployment", "store", "wordpress", "http"] as const;
export const siteKind = z.enum(SITE_KINDS);
export type SiteKind = z.infer<typeof siteKind>;

const PLATFORMS = ["bluesky", "mastodon", "x"] as const;
export const platform = z.enum(PLATFORMS);
export type Platform = z.infer<typeof platform>;

/** Returns the key of an article's work on one site; it omits the name of a brand's only site. */
export function siteKey(key: string, site: string): string {
  return site === MAIN ? key : `${key}/${site}`;
}
