import * as z from "zod";

/**
 * The name of a brand's default site and default account, which apply if the brand has configured no site or account. Paths and keys omit
 * this name.
 */
export const MAIN = "main";

/**
 * The name of a site or an account, unique within the brand. The name begins with a letter, so that a key cannot confuse the name with a
 * revision.
 */
export const targetName = z
  .string()
  .max(40)
  .regex(/^[a-z][a-z0-9-]*$/, "must be lower case letters, digits and dashes, and begin with a letter")
  .meta({ examples: [MAIN] });

/**
 * `deployment` is the site that the deployment's variables configure. `store` is the page store in R2. The address of a site of any other
 * kind is in a secret.
 */
const SITE_KINDS = ["deployment", "store", "wordpress", "http"] as const;
export const siteKind = z.enum(SITE_KINDS);
export type SiteKind = z.infer<typeof siteKind>;

const PLATFORMS = ["bluesky", "mastodon", "x"] as const;
export const platform = z.enum(PLATFORMS);
export type Platform = z.infer<typeof platform>;

/** Returns the key of an article's command or step for one site. The key omits the name of the brand's default site. */
export function siteKey(key: string, site: string): string {
  return site === MAIN ? key : `${key}/${site}`;
}
