import { checkText } from "./address.ts";
import { resolve } from "./resolve.ts";
import { allowsLocal, resolverOf, type WebhookVars } from "./settings.ts";

/** May be called; may not, with the reason; or nobody can say for now. */
export type CheckedTarget =
  | { verdict: "public"; url: URL }
  | { verdict: "refused"; reason: string }
  | { verdict: "unknown"; reason: string };

/**
 * Judges where a webhook would go: by its text, then by every address its name has now. Asked when an endpoint is registered and again
 * before each request; what a name resolves to a moment later, when the platform connects, nobody here can see.
 */
export async function checkTarget(env: WebhookVars, text: string): Promise<CheckedTarget> {
  const checked = checkText(text, { local: allowsLocal(env) });
  if ("refused" in checked) return { verdict: "refused", reason: checked.refused };
  const { url, name } = checked;
  if (name === undefined) return { verdict: "public", url };
  const resolved = await resolve(resolverOf(env), name);
  return resolved.verdict === "public" ? { verdict: "public", url } : resolved;
}
