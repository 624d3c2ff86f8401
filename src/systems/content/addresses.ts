import { type ProvidersEnv, publicUrl } from "../../providers/index.ts";
import type { BrandKey } from "./live.ts";

/** Where people find what a brand has: an index of its articles, and the feed of it. */
export function brandAddresses(env: ProvidersEnv, { tenantId, brand }: BrandKey): { index: string; feed: string } {
  const index = publicUrl(env, `pages/${tenantId}/${brand}/`);
  return { index, feed: `${index}feed.xml` };
}
