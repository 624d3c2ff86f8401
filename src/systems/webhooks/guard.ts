import { checkText } from "./address.ts";
import { resolve } from "./resolve.ts";
import { allowsLocal, resolverOf, type WebhookVars } from "./settings.ts";

/** The result of a check: allowed; refused with the reason; or unknown for now. */
export type CheckedTarget =
  | { verdict: "public"; url: URL }
  | { verdict: "refused"; reason: string }
  | { verdict: "unknown"; reason: string };

/**
 * Checks a webhook's target: its text, then every address of its name. The check runs when an endpoint is registered, and before each
 * request. A DNS change between the check and the platform's connection cannot be detected.
 */
export async function checkTarget(env: WebhookVars, text: string): Promise<CheckedTarget> {
  const checked = checkText(text, { local: allowsLocal(env) });
  if ("refused" in checked) return { verdict: "refused", reason: checked.refused };
  const { url, name } = checked;
  if (name === undefined) return { verdict: "public", url };
  const resolved = await resolve(resolverOf(env), name);
  return resolved.verdict === "public" ? { verdict: "public", url } : resolved;
}
