import { checkText } from "./address.ts";
import { type Resolved, resolve } from "./resolve.ts";
import { allowsLocal, resolverOf, type WebhookVars } from "./settings.ts";

/**
 * Judges where a webhook would go: by its text, then by every address its name has now. Asked when an endpoint is registered and again
 * before each request; what a name resolves to a moment later, when the platform connects, nobody here can see.
 */
export async function checkTarget(env: WebhookVars, text: string): Promise<Resolved & { url?: URL }> {
  const checked = checkText(text, { local: allowsLocal(env) });
  if ("refused" in checked) return { verdict: "refused", reason: checked.refused };
  const { url, name } = checked;
  return { ...(name === undefined ? { verdict: "public" } : await resolve(resolverOf(env), name)), url };
}
