import { checkText } from "./address.ts";
import { resolve } from "./resolve.ts";
import { allowsLocal, resolverOf, type WebhookVars } from "./settings.ts";

/** The result of checking a URL: allowed, refused with a reason, or currently unknown with a reason. */
export type CheckedTarget =
  | { verdict: "public"; url: URL }
  | { verdict: "refused"; reason: string }
  | { verdict: "unknown"; reason: string };

/**
 * Checks a webhook's URL: first the URL's text, then every IP address of the host name. The check runs when an endpoint is registered, and
 * before each request. A DNS change between the check and the platform's connection cannot be detected.
 */
export async function checkTarget(env: WebhookVars, text: string): Promise<CheckedTarget> {
  const checked = checkText(text, { local: allowsLocal(env) });
  if ("refused" in checked) return { verdict: "refused", reason: checked.refused };
  const { url, name } = checked;
  if (name === undefined) return { verdict: "public", url };
  const resolved = await resolve(resolverOf(env), name);
  return resolved.verdict === "public" ? { verdict: "public", url } : resolved;
}
