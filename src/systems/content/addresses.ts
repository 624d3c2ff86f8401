import { type ProvidersEnv, publicUrl } from "../../providers/index.ts";
import type { BrandKey } from "./live.ts";

/** The public URLs of a brand: its index of articles and its feed. */
export function brandAddresses(env: ProvidersEnv, { tenantId, brand }: BrandKey): { index: string; feed: string } {
  const index = publicUrl(env, `pages/${tenantId}/${brand}/`);
  return { index, feed: `${index}feed.xml` };
}
